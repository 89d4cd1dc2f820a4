"""Carney, Lee & Zdonik: scalable application-aware data freshening (ICDE 2003)."""
