"""Li, Cline & Loguinov: sample-path staleness in lazy data replication (INFOCOM 2015)."""
