// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"miracle.dev/scaledjob-operator/hack/release/oci"
)

const (
	pauseImage = "docker.io/library/pause:node"
	pausePath  = "miracle.dev/scaledjob-operator/test/kit/node/pause"
)

// shell are the programs that the scripts of the samples use.
var shell = []string{"sh", "cat", "date", "head", "sed", "seq", "sleep", "tac"}

// packImages packs what a cluster and the samples run into a folder: pause, CoreDNS, and Redis with a shell, from
// Debian's packages. It returns the paths of the archives.
func packImages(ctx context.Context, dir string, from paths) ([]string, error) {
	err := errors.Join(packPause(ctx, dir), packCoreDNS(dir, from.dns), packRedis(ctx, dir, from.debian))
	return []string{filepath.Join(dir, "pause.tar"), filepath.Join(dir, "coredns.tar"), filepath.Join(dir, "redis.tar")}, err
}

func packPause(ctx context.Context, dir string) error {
	program := filepath.Join(dir, "pause")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o="+program, pausePath)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", build, err, output)
	}
	files := []oci.File{{Path: "/pause", Mode: 0o755, Source: program}}
	return pack(dir, "pause:node", v1.Config{Entrypoint: []string{"/pause"}, User: "65535:65535"}, files)
}

func packCoreDNS(dir, program string) error {
	files := []oci.File{{Path: "/coredns", Mode: 0o755, Source: program}}
	return pack(dir, "coredns:node", v1.Config{Entrypoint: []string{"/coredns"}}, files)
}

// packRedis packs Debian's Redis under the name of the usual image, with the programs that the scripts of the samples
// use. As there, the server also accepts connections from other hosts without a password.
func packRedis(ctx context.Context, dir, root string) error {
	programs := map[string]string{
		// One program that acts by the name that it is called by.
		"redis-server": filepath.Join(root, "usr/bin/redis-check-rdb"),
		"redis-cli":    filepath.Join(root, "usr/bin/redis-cli"),
	}
	for _, name := range shell {
		path, err := exec.LookPath(name)
		if err != nil {
			return err
		}
		programs[name] = path
	}
	files := []oci.File{
		{Path: "/data", Mode: fs.ModeDir | 0o777},
		{Path: "/tmp", Mode: fs.ModeDir | 0o777},
		{Path: "/bin", Link: "usr/bin"},
	}
	libraries := map[string]string{}
	for name, path := range programs {
		files = append(files, oci.File{Path: "/usr/bin/" + name, Mode: 0o755, Source: path})
		if err := addLibraries(ctx, libraries, root, path); err != nil {
			return err
		}
	}
	for inImage, path := range libraries {
		files = append(files, oci.File{Path: inImage, Mode: 0o755, Source: path})
	}
	return pack(dir, "redis:7", v1.Config{
		Entrypoint: []string{"redis-server", "--protected-mode", "no"},
		Env:        []string{"PATH=/usr/bin"},
		WorkingDir: "/data",
	}, files)
}

// libraryLine is how ldd shows a library that it has found.
var libraryLine = regexp.MustCompile(`(?m)^\s+(?:\S+ => )?(/\S+) \(0x`)

// addLibraries adds the libraries of a program, by their paths in an image, where those below root lose that prefix.
func addLibraries(ctx context.Context, libraries map[string]string, root, program string) error {
	folders, err := libraryFolders(root)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "ldd", program)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "LD_LIBRARY_PATH="+strings.Join(folders, ":"))
	output, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", cmd, err)
	}
	for _, match := range libraryLine.FindAllStringSubmatch(string(output), -1) {
		libraries[strings.TrimPrefix(match[1], root)] = match[1]
	}
	return nil
}

func pack(dir, reference string, config v1.Config, files []oci.File) error {
	image, err := oci.Image{
		Platform: v1.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH},
		Created:  time.Unix(1, 0),
		Config:   config,
		Layers:   []oci.Layer{{Files: files}},
	}.Build()
	if err != nil {
		return err
	}
	name, _, _ := strings.Cut(reference, ":")
	return oci.WriteArchive(filepath.Join(dir, name+".tar"), reference, image)
}
