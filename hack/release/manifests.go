// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
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
	overlay, err := os.MkdirTemp("", "overlay")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(overlay)
	content, err := r.overlay(overlay, digest)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), content, 0o644); err != nil {
		return nil, err
	}
	manifest, err := r.kustomize(ctx, overlay)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(string(manifest), "image: "+r.reference(digest)+"\n") {
		return nil, fmt.Errorf("config/default has no image %s, so nothing names %s", project, r.reference(digest))
	}
	return manifest, nil
}

// overlay is a kustomization in a folder elsewhere that sets the image of config/default.
func (r *release) overlay(folder, digest string) ([]byte, error) {
	// Kustomize takes no absolute paths, and looks behind symbolic links, such as that of a temporary folder.
	from, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return nil, err
	}
	to, err := filepath.Abs(filepath.Join(r.root, "config", "default"))
	if err != nil {
		return nil, err
	}
	if to, err = filepath.EvalSymlinks(to); err != nil {
		return nil, err
	}
	base, err := filepath.Rel(from, to)
	if err != nil {
		return nil, err
	}
	image := map[string]string{"name": project, "newName": r.image, "newTag": r.tag()}
	if digest != "" {
		image["digest"] = digest
	}
	return yaml.Marshal(map[string]any{"resources": []string{base}, "images": []any{image}})
}

func (r *release) kustomize(ctx context.Context, folder string) ([]byte, error) {
	return command(ctx, r.root, nil, "go", "tool", "-modfile=hack/tools/go.mod", "kustomize", "build", folder)
}
