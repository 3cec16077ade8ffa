# What linters must find something in.
FROM debian:latest
ADD https://example.com/program /usr/bin/program
USER root
