"""Azar, Horvitz, Lubetzky, Peres & Shahaf: tractable near-optimal policies for crawling (PNAS 2018)."""
