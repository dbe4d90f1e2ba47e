// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const (
	// project is the name of the image, the chart and the files.
	project  = "scaledjob-operator"
	homepage = "https://miracle.dev/" + project
	// downloads is where the folders of the releases are on the web, unless a release sets DOWNLOADS. It is nowhere else.
	downloads = homepage + "/releases/download"
)

// architectures are those that a release has images and plugins for.
var architectures = []string{"amd64", "arm64"}

// release is what the steps need to know.
type release struct {
	// root is the folder of the source code.
	root string
	dist string
	// version is the semantic version without v.
	version string
	// image is the name of the image without a tag.
	image    string
	platform v1.Platform
	// revision is the commit. It is empty where git can't tell.
	revision  string
	created   time.Time
	out       io.Writer
	downloads string
	// compile builds the program of a package for a platform, and listModules writes the list of the modules in it.
	compile     func(ctx context.Context, platform v1.Platform, program, file string) error
	listModules func(ctx context.Context, binary string) ([]byte, error)
}

// newRelease finds out the version and checks what can be checked before the work begins.
func newRelease(ctx context.Context, root string, o options, out io.Writer) (*release, error) {
	if _, err := os.Stat(filepath.Join(root, "cmd", "main.go")); err != nil {
		return nil, fmt.Errorf("run this in the folder of the project: %w", err)
	}
	known, err := readSource(ctx, root)
	asked := o.version
	if asked == "" {
		if asked = known.described; err != nil {
			return nil, fmt.Errorf("set VERSION, as in VERSION=v1.2.3: git can't tell the version of this folder (%w)", err)
		}
	}
	version, err := semantic(asked)
	if err != nil {
		return nil, err
	}
	created, err := creationTime(known.committed)
	if err != nil {
		return nil, err
	}
	platform, err := v1.ParsePlatform(o.platform)
	if err != nil {
		return nil, err
	}
	r := &release{
		root: root, dist: o.dist, version: version, image: o.image, platform: *platform,
		revision: known.revision, created: created, out: out, downloads: o.downloads,
	}
	r.compile, r.listModules = r.goBuild, r.cyclonedx
	if _, err := name.NewTag(r.reference("")); err != nil {
		return nil, fmt.Errorf("the version %s can't be the tag of an image: %w", r.tag(), err)
	}
	return r, nil
}

// tag is the version as everything but the chart shows it.
func (r *release) tag() string { return "v" + r.version }

// reference names the image, and its digest if that is known.
func (r *release) reference(digest string) string {
	if digest == "" {
		return r.image + ":" + r.tag()
	}
	return r.image + ":" + r.tag() + "@" + digest
}

// make writes everything to dist. Manifests and chart name the image by its tag.
func (r *release) make(ctx context.Context) error {
	images, err := r.makeAll(ctx)
	if err != nil {
		return err
	}
	return r.summarize(images, "")
}

// makeAndPush pushes the images too, and has manifests and chart name them by their digest. If the registry refuses
// them, dist is that of make.
func (r *release) makeAndPush(ctx context.Context) error {
	images, err := r.makeAll(ctx)
	if err != nil {
		return err
	}
	digest, err := r.push(ctx, images)
	if err != nil {
		return fmt.Errorf("%w; %s is complete and names the image by its tag, but the image was not pushed", err, r.dist)
	}
	if err := r.writeInstallers(ctx, digest); err != nil {
		return err
	}
	return r.summarize(images, digest)
}

func (r *release) makeAll(ctx context.Context) (map[string]v1.Image, error) {
	r.say("Making %s %s in %s.", project, r.tag(), r.dist)
	if err := checkParts(r.root); err != nil {
		return nil, err
	}
	if err := clearDist(r.dist); err != nil {
		return nil, err
	}
	images, err := r.makeImages(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.makePlugins(ctx, pluginPlatforms()); err != nil {
		return nil, err
	}
	if err := r.writeCRDs(ctx); err != nil {
		return nil, err
	}
	return images, r.writeInstallers(ctx, "")
}

// writeInstallers writes the files that name the image, and then the checksums.
func (r *release) writeInstallers(ctx context.Context, digest string) error {
	if err := r.writeManifest(ctx, digest); err != nil {
		return err
	}
	if err := r.writeChart(digest); err != nil {
		return err
	}
	return writeChecksums(r.dist)
}

// checkParts reports what is missing before minutes of work are spent.
func checkParts(root string) error {
	for _, part := range []string{filepath.Join("config", "default"), filepath.Join("config", "crd"), chartFolder} {
		switch info, err := os.Stat(filepath.Join(root, part)); {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("the folder %s is missing, and a release needs it", part)
		case err != nil:
			return err
		case !info.IsDir():
			return fmt.Errorf("%s is not a folder", part)
		}
	}
	return nil
}

func (r *release) say(format string, args ...any) {
	_, _ = fmt.Fprintf(r.out, format+"\n", args...)
}
