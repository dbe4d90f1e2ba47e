// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// containerdName is the annotation from which containerd takes the name of an image that it imports.
const containerdName = "io.containerd.image.name"

// WriteArchive writes an image as one file that can be loaded by docker load, podman load, ctr images import and kind
// load image-archive: an image layout of OCI that also holds the manifest.json of Docker. The reference is that by
// which users know the image, such as redis:7; containerd gets it in full, with docker.io/library/, since the kubelet
// asks for it so.
func WriteArchive(file, reference string, image v1.Image) error {
	tag, err := name.NewTag(reference)
	if err != nil {
		return fmt.Errorf("%q is not the name of an image: %w", reference, err)
	}
	if !strings.HasSuffix(reference, ":"+tag.TagStr()) {
		return fmt.Errorf("the image name %q needs a tag, as in %[1]s:v1", reference)
	}
	folder, err := os.MkdirTemp("", "image")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := writeLayout(folder, tag, image); err != nil {
		return fmt.Errorf("writing the image %s: %w", reference, err)
	}
	if err := writeDockerManifest(folder, reference, image); err != nil {
		return fmt.Errorf("writing the image %s: %w", reference, err)
	}
	content, err := Tree(folder)
	if err != nil {
		return err
	}
	return writeFile(file, func(out io.Writer) error { return WriteTar(out, content) })
}

// writeLayout writes the image layout of OCI.
func writeLayout(folder string, tag name.Tag, image v1.Image) error {
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	written, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	return written.AppendImage(image, layout.WithPlatform(*config.Platform()), layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": tag.TagStr(),
		containerdName:                      fullName(tag),
	}))
}

// fullName returns the name as containerd writes it: Docker Hub is docker.io there.
func fullName(tag name.Tag) string {
	if tag.RegistryStr() == name.DefaultRegistry {
		return "docker.io/" + tag.RepositoryStr() + ":" + tag.TagStr()
	}
	return tag.Name()
}

// writeDockerManifest adds what docker load reads. It names the blobs of the layout.
func writeDockerManifest(folder, reference string, image v1.Image) error {
	manifest, err := image.Manifest()
	if err != nil {
		return err
	}
	entry := tarball.Descriptor{Config: blob(manifest.Config.Digest), RepoTags: []string{reference}}
	for _, layer := range manifest.Layers {
		entry.Layers = append(entry.Layers, blob(layer.Digest))
	}
	content, err := json.Marshal(tarball.Manifest{entry})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "manifest.json"), content, 0o600)
}

func blob(digest v1.Hash) string {
	return "blobs/" + digest.Algorithm + "/" + digest.Hex
}

// writeFile writes a file that is either complete or not there.
func writeFile(file string, write func(io.Writer) error) (err error) {
	out, err := os.CreateTemp(filepath.Dir(file), ".*.part")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(out.Name())
		}
	}()
	if err := write(out); err != nil {
		_ = out.Close()
		return err
	}
	if err := out.Chmod(0o644); err != nil {
		_ = out.Close()
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	return os.Rename(out.Name(), file)
}
