// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"sigs.k8s.io/yaml"
)

const (
	// plugin is the program that kubectl runs as kubectl scaledjob.
	plugin = "kubectl-scaledjob"
	// completer is the program by which kubectl completes its arguments, and completion its text.
	completer  = "kubectl_complete-scaledjob"
	completion = "#!/bin/sh\nexec kubectl scaledjob __complete \"$@\"\n"
	// krewManifest is the file by which krew installs the plugin.
	krewManifest = "krew.yaml"

	windows = "windows"
)

// pluginPlatforms returns the platforms that people run kubectl on.
func pluginPlatforms() []v1.Platform {
	var platforms []v1.Platform
	for _, system := range []string{"linux", "darwin", windows} {
		for _, architecture := range architectures {
			platforms = append(platforms, v1.Platform{OS: system, Architecture: architecture})
		}
	}
	return platforms
}

// makePlugins writes an archive with the plugin for each platform, and the manifest for krew that names them.
func (r *release) makePlugins(ctx context.Context, platforms []v1.Platform) error {
	binaries, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(binaries)
	manifest := r.krewPlugin()
	for _, platform := range platforms {
		offer, err := r.makePlugin(ctx, platform, filepath.Join(binaries, platform.OS+"-"+platform.Architecture))
		if err != nil {
			return err
		}
		manifest.Spec.Platforms = append(manifest.Spec.Platforms, offer)
	}
	content, err := yaml.Marshal(manifest)
	if err != nil {
		return err
	}
	file := filepath.Join(r.dist, krewManifest)
	r.say("Writing %s.", file)
	return os.WriteFile(file, content, 0o644)
}

// makePlugin writes the archive for a platform, and returns what krew needs to know of it.
func (r *release) makePlugin(ctx context.Context, platform v1.Platform, binary string) (krewPlatform, error) {
	if err := r.compile(ctx, platform, pluginPackage, binary); err != nil {
		return krewPlatform{}, fmt.Errorf("compiling %s for %s: %w", titles[pluginPackage], platform, err)
	}
	files, err := r.pluginFiles(platform, binary)
	if err != nil {
		return krewPlatform{}, err
	}
	write, suffix := writeTarGz, ".tar.gz"
	if platform.OS == windows {
		write, suffix = writeZip, ".zip"
	}
	var archive bytes.Buffer
	if err := write(&archive, files, r.created); err != nil {
		return krewPlatform{}, err
	}
	name := fmt.Sprintf("%s-%s-%s-%s%s", plugin, r.tag(), platform.OS, platform.Architecture, suffix)
	offer := krewPlatform{URI: r.downloads + "/" + r.tag() + "/" + name, Sha256: fmt.Sprintf("%x", sha256.Sum256(archive.Bytes())), Bin: files[0].name}
	offer.Selector.MatchLabels = map[string]string{"os": platform.OS, "arch": platform.Architecture}
	file := filepath.Join(r.dist, name)
	r.say("Writing %s.", file)
	return offer, os.WriteFile(file, archive.Bytes(), 0o644)
}

// archived is a file of an archive.
type archived struct {
	name    string
	mode    int64
	content []byte
}

// pluginFiles returns the files of the archive for a platform, the program first.
func (r *release) pluginFiles(platform v1.Platform, binary string) ([]archived, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	license, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	if platform.OS == windows {
		return []archived{{plugin + ".exe", 0o755, program}, {"LICENSE", 0o644, license}}, nil
	}
	return []archived{{plugin, 0o755, program}, {completer, 0o755, []byte(completion)}, {"LICENSE", 0o644, license}}, nil
}

func writeTarGz(to *bytes.Buffer, files []archived, at time.Time) error {
	packed, err := gzip.NewWriterLevel(to, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(packed)
	for _, file := range files {
		header := &tar.Header{Name: file.name, Mode: file.mode, Size: int64(len(file.content)), ModTime: at, Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(file.content); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return packed.Close()
}

func writeZip(to *bytes.Buffer, files []archived, at time.Time) error {
	// The format begins with this year.
	if first := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC); at.Before(first) {
		at = first
	}
	archive := zip.NewWriter(to)
	for _, file := range files {
		header := &zip.FileHeader{Name: file.name, Method: zip.Deflate, Modified: at}
		header.SetMode(os.FileMode(file.mode))
		entry, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := entry.Write(file.content); err != nil {
			return err
		}
	}
	return archive.Close()
}

// krewPlugin is a manifest of krew.
type krewPlugin struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string         `json:"version"`
		Homepage         string         `json:"homepage"`
		ShortDescription string         `json:"shortDescription"`
		Description      string         `json:"description"`
		Platforms        []krewPlatform `json:"platforms"`
	} `json:"spec"`
}

// krewPlatform is an archive for a platform. Krew unpacks all of its files.
type krewPlatform struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	URI    string `json:"uri"`
	Sha256 string `json:"sha256"`
	// Bin is the program in the archive.
	Bin string `json:"bin"`
}

// krewPlugin returns the manifest without archives.
func (r *release) krewPlugin() krewPlugin {
	manifest := krewPlugin{APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin"}
	manifest.Metadata.Name = "scaledjob"
	manifest.Spec.Version = r.tag()
	manifest.Spec.Homepage = homepage
	manifest.Spec.ShortDescription = "Show and explain ScaledJobs"
	manifest.Spec.Description = "A ScaledJob turns messages that wait in Redis into Jobs. This plugin shows, explains and plans\n" +
		"ScaledJobs, finds faults, suspends and resumes ScaledJobs, and converts those of KEDA. It works with your own permissions.\n"
	return manifest
}
