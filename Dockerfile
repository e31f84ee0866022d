# windsock as an image: one static binary, the certificate authorities, a folder for
# the database.
#
#   docker build -t windsock .                        compiles it
#   make rootfs && docker build --target prebuilt .   takes the binary from bin/rootfs

# Any image with Go, make, a C compiler and ca-certificates.
ARG GO_IMAGE=golang:1.26-bookworm

# What both images say of themselves. All addresses, so that it takes a token:
# WINDSOCK_ADMIN_TOKEN_FILE (docs/access.md).
FROM scratch AS settings
ENV WINDSOCK_LISTEN=0.0.0.0:8080 WINDSOCK_DB=/data/windsock.db
EXPOSE 8080
USER 65532:65532
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s CMD ["/windsock", "healthcheck"]
ENTRYPOINT ["/windsock"]
CMD ["serve"]

FROM settings AS prebuilt
COPY bin/rootfs/windsock /windsock
COPY bin/rootfs/etc /etc
COPY --chown=65532:65532 bin/rootfs/data /data
VOLUME /data

FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=
RUN make rootfs VERSION=${VERSION}

FROM settings
COPY --from=build /src/bin/rootfs/windsock /windsock
COPY --from=build /src/bin/rootfs/etc /etc
COPY --from=build --chown=65532:65532 /src/bin/rootfs/data /data
VOLUME /data
