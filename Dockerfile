# The images for those who build with a container engine; `make images` needs none and is what is tested.
#
#   docker buildx build --build-arg COMPONENT=manager --build-arg VERSION=v0.1.0 \
#     --platform linux/amd64,linux/s390x --tag registry.example.com/me/lighterage/manager:v0.1.0 --push .
#
# and likewise with COMPONENT=gateway and COMPONENT=agent. Each platform is compiled on that platform, emulated where need be.

ARG GO_VERSION=1.26
# What is built with: for a build that can be repeated give a digest, golang:1.26-bookworm@sha256:..., which also fixes Debian's release, and
# with DEBIAN_SNAPSHOT a time, such as 20260101T000000Z, of snapshot.debian.org, from which the packages are then installed.
ARG BUILD_IMAGE=golang:${GO_VERSION}-bookworm

FROM ${BUILD_IMAGE} AS build
ARG DEBIAN_SNAPSHOT=
RUN set -eu; \
    if [ -n "${DEBIAN_SNAPSHOT}" ]; then \
        rm -f /etc/apt/sources.list.d/*; \
        for archive in debian/${DEBIAN_SNAPSHOT}/\ bookworm debian-security/${DEBIAN_SNAPSHOT}/\ bookworm-security; do \
            echo "deb [check-valid-until=no] https://snapshot.debian.org/archive/${archive} main"; \
        done >/etc/apt/sources.list; \
    fi; \
    apt-get update; apt-get install -y --no-install-recommends cargo cmake make nasm ninja-build pkg-config
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG COMPONENT
ARG VERSION=dev
RUN set -eu; \
    ldflags="-s -w -X github.com/lighterage/lighterage/agent/wire/v1.Version=${VERSION}"; \
    case "${COMPONENT:?say which: --build-arg COMPONENT=manager, gateway or agent}" in \
    manager | gateway) \
        CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "$ldflags" -o /out/component "./controllers/cmd/${COMPONENT}" ;; \
    agent) \
        env=$(hack/engines/env.sh --all "$(go env GOARCH)"); eval "$env"; \
        go build -trimpath -buildvcs=false -tags "$LIGHTERAGE_TAGS,netgo,osusergo" \
            -ldflags "$ldflags -linkmode external -extldflags -static" -o /out/component ./agent/cmd/agent ;; \
    *) echo "there is no component ${COMPONENT}: take manager, gateway or agent" >&2; exit 1 ;; \
    esac; \
    mkdir -p /out/root/etc && mv /out/component "/out/root/${COMPONENT}"; \
    echo 'nonroot:x:65532:65532:nonroot:/:/sbin/nologin' >/out/root/etc/passwd; \
    ln -s "/${COMPONENT}" /out/root/entrypoint

FROM scratch
COPY --from=build /out/root/ /
USER 65532:65532
ENTRYPOINT ["/entrypoint"]
