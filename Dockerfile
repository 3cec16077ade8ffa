# The operator's image. With its bill of materials and provenance:
#   docker buildx build --sbom=true --provenance=mode=max --tag REGISTRY/causeway:VERSION --push .
# The program is linked to glibc: both stages are of Debian 12, so that it finds the version it was linked with.
FROM rust:1.95-slim-bookworm AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends protobuf-compiler libprotobuf-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target,sharing=locked \
    cargo build --release --locked --package causeway --package causeway-backup \
    && cp target/release/causeway target/release/causeway-backup /

# glibc, libgcc and root certificates; no shell and no package manager.
FROM gcr.io/distroless/cc-debian12:nonroot
LABEL org.opencontainers.image.title="Causeway" \
      org.opencontainers.image.description="A Kubernetes operator that bridges Kubernetes and AWS" \
      org.opencontainers.image.source="https://github.com/causeway-operator/causeway" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /causeway /causeway-backup /usr/local/bin/
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/causeway"]
