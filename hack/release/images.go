// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"miracle.dev/scaledjob-operator/hack/release/oci"
)

// makeImages writes the image for each architecture, and the list of its modules.
func (r *release) makeImages(ctx context.Context) (map[string]v1.Image, error) {
	binaries, err := os.MkdirTemp("", "release")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(binaries)
	images := map[string]v1.Image{}
	for _, architecture := range architectures {
		binary := filepath.Join(binaries, architecture, "manager")
		image, err := r.makeImage(ctx, v1.Platform{OS: "linux", Architecture: architecture}, binary)
		if err != nil {
			return nil, err
		}
		if err := r.writeModules(ctx, architecture, binary); err != nil {
			return nil, err
		}
		images[architecture] = image
	}
	return images, nil
}

// makeImage compiles the operator to the file binary, and writes the image with it.
func (r *release) makeImage(ctx context.Context, platform v1.Platform, binary string) (v1.Image, error) {
	if err := r.compile(ctx, platform, operatorPackage, binary); err != nil {
		return nil, fmt.Errorf("compiling the operator for %s: %w", platform, err)
	}
	image, err := r.describe(platform, binary).Build()
	if err != nil {
		return nil, err
	}
	archive := r.perPlatform(platform.Architecture, ".tar")
	r.say("Writing %s.", archive)
	return image, oci.WriteArchive(archive, r.reference(""), image)
}

// makeArchive writes the image for one platform, and nothing else.
func (r *release) makeArchive(ctx context.Context) error {
	folder, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := createDist(r.dist); err != nil {
		return err
	}
	_, err = r.makeImage(ctx, r.platform, filepath.Join(folder, "manager"))
	return err
}

// describe says what is in the image, and what runs in it.
func (r *release) describe(platform v1.Platform, binary string) oci.Image {
	return oci.Image{
		Platform: platform,
		Created:  r.created,
		Config: v1.Config{
			User:       user,
			Entrypoint: []string{"/manager"},
			Labels:     r.labels(),
		},
		Layers: []oci.Layer{
			{Comment: "users and certificates", Files: base()},
			{Comment: "the operator", Files: manager(binary)},
		},
	}
}

// labels are those that the OCI specification of images defines.
func (r *release) labels() map[string]string {
	labels := map[string]string{
		"title":       project,
		"description": "Creates Kubernetes Jobs for messages in Redis",
		"version":     r.tag(),
		"source":      homepage,
		"licenses":    "Apache-2.0",
		"created":     r.created.Format(time.RFC3339),
	}
	if r.revision != "" {
		labels["revision"] = r.revision
	}
	full := map[string]string{}
	for key, value := range labels {
		full["org.opencontainers.image."+key] = value
	}
	return full
}

// perPlatform returns the name of a file in dist that is there once for each platform.
func (r *release) perPlatform(architecture, suffix string) string {
	return filepath.Join(r.dist, project+"-"+r.tag()+"-linux-"+architecture+suffix)
}
