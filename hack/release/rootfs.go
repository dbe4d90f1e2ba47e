// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/crypto/x509roots/fallback/bundle"

	"miracle.dev/scaledjob-operator/hack/release/oci"
)

const (
	// user is nonroot, as in the images that many operators run in.
	user   = "65532:65532"
	passwd = `root:x:0:0:root:/root:/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin
nonroot:x:65532:65532:nonroot:/nonexistent:/sbin/nologin
`
	group = `root:x:0:
nobody:x:65534:
nonroot:x:65532:
`
)

// base is the lower layer: users, and the certificates that TLS to Redis trusts by default.
func base() []oci.File {
	return []oci.File{
		{Path: "/etc/passwd", Mode: 0o644, Content: []byte(passwd)},
		{Path: "/etc/group", Mode: 0o644, Content: []byte(group)},
		{Path: "/etc/ssl/certs/ca-certificates.crt", Mode: 0o644, Content: certificates()},
	}
}

// manager is the upper layer: the operator.
func manager(binary string) []oci.File {
	return []oci.File{{Path: "/manager", Mode: 0o755, Source: binary}}
}

// certificates returns the root certificates that Mozilla trusts, from the module that go.mod pins. A file can't hold
// constraints, so roots that are trusted only with constraints are left out.
func certificates() []byte {
	var all bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			all.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return all.Bytes()
}

// writeRootFS compiles the operator and writes the file system of its image to a folder, for the Dockerfile.
func (r *release) writeRootFS(ctx context.Context, folder string) error {
	if entries, err := os.ReadDir(folder); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty", folder)
	}
	if err := writeFiles(folder, base()); err != nil {
		return err
	}
	binary := filepath.Join(folder, "manager")
	if err := r.compile(ctx, r.platform, operatorPackage, binary); err != nil {
		return err
	}
	return os.Chmod(binary, 0o755)
}

// writeFiles writes files to a folder.
func writeFiles(folder string, files []oci.File) error {
	for _, file := range files {
		path := filepath.Join(folder, file.Path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, file.Content, file.Mode); err != nil {
			return err
		}
		if err := os.Chmod(path, file.Mode); err != nil { // in spite of the umask
			return err
		}
	}
	return nil
}
