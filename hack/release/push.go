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
	r.say("Pushing %s.", tag)
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

func signInNeeded(err error) bool {
	var refused *transport.Error
	return errors.As(err, &refused) &&
		(refused.StatusCode == http.StatusUnauthorized || refused.StatusCode == http.StatusForbidden)
}
