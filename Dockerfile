# The operator's image: one static binary, which carries the certificate authorities that it trusts where the system has none.
# `make image` builds the same without a container engine.
# The builder runs on the machine's own platform and cross-compiles, so that `make docker-buildx` needs no emulation.
FROM --platform=$BUILDPLATFORM golang:1.26 AS builder
ARG TARGETOS
ARG TARGETARCH
WORKDIR /workspace

# The modules first: this layer stays in the cache until a requirement changes.
COPY go.mod go.sum ./
RUN go mod download

COPY api/ api/
COPY controllers/ controllers/
COPY providers/ providers/
COPY internal/ internal/
COPY cmd/ cmd/
ARG VERSION=dev
# Without TARGETOS and TARGETARCH (a builder that doesn't set them) Go builds for the builder's own platform.
RUN CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} \
    go build -trimpath -ldflags="-s -w -X main.version=${VERSION}" -o proxy-operator ./cmd

FROM scratch
ARG VERSION=dev
LABEL org.opencontainers.image.title="proxy-operator" \
      org.opencontainers.image.description="Runs fleets of forward proxies from Proxy objects in Kubernetes" \
      org.opencontainers.image.source="https://github.com/proxy-operator/proxy-operator" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=builder /workspace/proxy-operator /proxy-operator
# A number, as the kubelet can't check runAsNonRoot against a name.
USER 65532:65532
ENTRYPOINT ["/proxy-operator"]
