# syntax=docker/dockerfile:1
# The same code as in make release compiles the operator and writes the file system of the image. The labels are
# arguments of docker build: see make image.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
COPY api/go.mod api/go.sum ./api/
RUN go mod download
COPY . .
ARG TARGETOS TARGETARCH
ARG VERSION=dev
RUN go run ./hack/release -version="$VERSION" -platform="$TARGETOS/$TARGETARCH" rootfs /rootfs

FROM scratch
COPY --from=build /rootfs /
USER 65532:65532
ENTRYPOINT ["/manager"]
