import os

# all figures are for one core, and threads that wait for each other on a busy machine measure nothing
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
