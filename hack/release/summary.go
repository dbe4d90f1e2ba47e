// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"text/tabwriter"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// summarize lists what is in dist, and says what to do with it. The digest is that of the index that was pushed.
func (r *release) summarize(images map[string]v1.Image, digest string) error {
	digests := map[string]string{}
	for architecture, image := range images {
		hash, err := image.Digest()
		if err != nil {
			return err
		}
		digests[filepath.Base(r.perPlatform(architecture, ".tar"))] = hash.String()
	}
	entries, err := os.ReadDir(r.dist)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprint(table, "\nFILE\tSIZE\tDIGEST OF THE IMAGE\n")
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", entry.Name(), size(info.Size()), digests[entry.Name()])
	}
	if err := table.Flush(); err != nil {
		return err
	}
	r.sayNext(digest)
	return nil
}

// sayNext prints the next commands.
func (r *release) sayNext(digest string) {
	r.say("\nCheck the files:  (cd %s && sha256sum -c %s)", r.dist, checksums)
	if digest != "" {
		r.say("Pushed:           %s", r.reference(digest))
	} else {
		r.say("Load the image:   kind load image-archive %s", r.perPlatform(runtime.GOARCH, ".tar"))
		r.say("or push it:       make push VERSION=%s IMAGE=registry.example/%s", r.tag(), project)
	}
	r.say("Then install:     kubectl apply -f %s -f %s", filepath.Join(r.dist, "crds.yaml"), filepath.Join(r.dist, "install.yaml"))
	r.say("and the plugin:   kubectl krew install --manifest=%s --archive=%s", filepath.Join(r.dist, krewManifest),
		filepath.Join(r.dist, fmt.Sprintf("%s-%s-%s-%s.tar.gz", plugin, r.tag(), runtime.GOOS, runtime.GOARCH)))
	r.say("or with Helm:     helm install %s %s --namespace %[1]s-system --create-namespace", project,
		filepath.Join(r.dist, project+"-"+r.version+".tgz"))
}

// size writes a number of bytes in the largest unit that leaves at least 1.
func size(bytes int64) string {
	switch {
	case bytes >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	case bytes >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(bytes)/(1<<10))
	}
	return fmt.Sprintf("%d B", bytes)
}
