// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// The comments at the beginning of the manifests.
const (
	crdsHeader = `# The CRDs of scaledjob-operator %[1]s: without them there are no ScaledJobs.
# To install or upgrade them:
#   kubectl apply -f crds.yaml
# DANGER: kubectl delete -f crds.yaml deletes all ScaledJobs and all their Jobs, running ones too.
`
	installHeader = `# scaledjob-operator %[1]s without its CRDs, which are in crds.yaml.
# To install or upgrade both:
#   kubectl apply -f crds.yaml -f install.yaml
# To remove the operator, and keep ScaledJobs and Jobs:
#   kubectl delete -f install.yaml -l app.kubernetes.io/name=scaledjob-operator
# The Namespace stays, because deleting it deletes the ScaledJobs and Jobs in it too. Without -l, it is deleted.
`
)

// writeCRDs writes crds.yaml.
func (r *release) writeCRDs(ctx context.Context) error {
	manifest, err := r.kustomize(ctx, filepath.Join("config", "crd"))
	if err != nil {
		return err
	}
	return r.writeYAML("crds.yaml", crdsHeader, manifest)
}

// writeManifest writes install.yaml.
func (r *release) writeManifest(ctx context.Context, digest string) error {
	manifest, err := r.manifest(ctx, digest)
	if err != nil {
		return err
	}
	return r.writeYAML("install.yaml", installHeader, manifest)
}

func (r *release) writeYAML(file, header string, manifest []byte) error {
	file = filepath.Join(r.dist, file)
	r.say("Writing %s.", file)
	return os.WriteFile(file, append(fmt.Appendf(nil, header, r.tag()), manifest...), 0o644)
}

// printManifest prints what install.yaml holds, for a cluster that can pull the image by its tag.
func (r *release) printManifest(ctx context.Context) error {
	manifest, err := r.manifest(ctx, "")
	if err != nil {
		return err
	}
	_, err = r.out.Write(manifest)
	return err
}

// manifest is everything in config/default, with the image set.
func (r *release) manifest(ctx context.Context, digest string) ([]byte, error) {
	manifest, err := r.kustomize(ctx, filepath.Join("config", "default"))
	if err != nil {
		return nil, err
	}
	const image = "        image: "
	if manifest, err = replaceLine(manifest, image+project+":latest", image+r.reference(digest)); err != nil {
		return nil, fmt.Errorf("config/default: %w", err)
	}
	return manifest, nil
}

func (r *release) kustomize(ctx context.Context, folder string) ([]byte, error) {
	return command(ctx, r.root, nil, "go", "tool", "-modfile=hack/tools/go.mod", "kustomize", "build", folder)
}
