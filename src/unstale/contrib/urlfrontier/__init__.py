"""URLFrontier: a mirror as the frontier of StormCrawler and other crawlers, by their protocol (gRPC).

``urlfrontier.proto`` is the definition by Crawler-Commons, under the Apache License 2.0, as it is published:
https://github.com/crawler-commons/url-frontier. ``urlfrontier.desc`` is the same, compiled by protoc.
"""
