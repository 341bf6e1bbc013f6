# The manager's image: one static binary and the certificate authorities it trusts.
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
# Without TARGETOS and TARGETARCH (a builder that doesn't set them) Go builds for the builder's own platform.
RUN CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} \
    go build -trimpath -ldflags='-s -w' -o proxy-operator ./cmd

FROM scratch
COPY --from=builder /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=builder /workspace/proxy-operator /proxy-operator
# A number, as the kubelet can't check runAsNonRoot against a name.
USER 65532:65532
ENTRYPOINT ["/proxy-operator"]
