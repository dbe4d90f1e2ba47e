// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// push pushes all images and, tagged with the version, the index that names them. It returns the digest of the index.
func (r *release) push(ctx context.Context, images map[string]v1.Image) (string, error) {
	tag, err := name.NewTag(r.reference(""))
	if err != nil {
		return "", err
	}
	index := indexOf(images)
	digest, err := index.Digest()
	if err != nil {
		return "", err
	}
	bytes, err := compressed(images)
	if err != nil {
		return "", err
	}
	r.say("Pushing %s, %s in all.", tag, size(bytes))
	err = remote.WriteIndex(tag, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	switch {
	case ctx.Err() != nil:
		return "", errors.New("interrupted")
	case signInNeeded(err):
		return "", fmt.Errorf("pushing %s: the registry refuses these credentials; sign in with docker login %s (%w)",
			tag, tag.RegistryStr(), err)
	case err != nil:
		return "", fmt.Errorf("pushing %s: %w", tag, err)
	}
	return digest.String(), nil
}

// indexOf returns the index of the images, from which a node selects that of its architecture.
func indexOf(images map[string]v1.Image) v1.ImageIndex {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range architectures {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        images[architecture],
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}},
		})
	}
	return index
}

// compressed returns how many bytes the layers of the images have. Most of them differ between two platforms.
func compressed(images map[string]v1.Image) (bytes int64, err error) {
	for _, image := range images {
		manifest, err := image.Manifest()
		if err != nil {
			return 0, err
		}
		for _, layer := range manifest.Layers {
			bytes += layer.Size
		}
	}
	return bytes, nil
}

func signInNeeded(err error) bool {
	var refused *transport.Error
	return errors.As(err, &refused) &&
		(refused.StatusCode == http.StatusUnauthorized || refused.StatusCode == http.StatusForbidden)
}
