// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package oci builds container images from files, without Docker, and writes them as archives.
//
// The same files give the same digest, whenever and wherever the image is built with the same version of Go.
package oci

import (
	"bytes"
	"fmt"
	"io"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Image describes an image for one platform.
type Image struct {
	// Platform needs an OS and an Architecture.
	Platform v1.Platform
	// Created is a fixed time, such as that of a commit: the clock would change the digest with each build.
	Created time.Time
	// Config says what runs: Entrypoint, Cmd, Env, User, WorkingDir, Labels and ExposedPorts.
	Config v1.Config
	// Layers are the file systems, the lowest first.
	Layers []Layer
}

// Layer is one layer of an image.
type Layer struct {
	// Comment says in the history of the image what the layer holds.
	Comment string
	Files   []File
}

// Build reads all files and returns the image. It needs the files no more after that.
func (i Image) Build() (v1.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.ConfigFile(base, &v1.ConfigFile{
		OS:           i.Platform.OS,
		Architecture: i.Platform.Architecture,
		Variant:      i.Platform.Variant,
		Created:      v1.Time{Time: i.Created.UTC()},
		Config:       i.Config,
		RootFS:       v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, fmt.Errorf("writing the image's configuration: %w", err)
	}
	for n, layer := range i.Layers {
		added, err := layer.build()
		if err != nil {
			return nil, fmt.Errorf("layer %d of the image: %w", n+1, err)
		}
		image, err = mutate.Append(image, mutate.Addendum{
			Layer:     added,
			MediaType: types.OCILayer,
			History:   v1.History{Created: v1.Time{Time: i.Created.UTC()}, Comment: layer.Comment},
		})
		if err != nil {
			return nil, fmt.Errorf("layer %d of the image: %w", n+1, err)
		}
	}
	return image, nil
}

func (l Layer) build() (v1.Layer, error) {
	var content bytes.Buffer
	if err := WriteTar(&content, l.Files); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}
