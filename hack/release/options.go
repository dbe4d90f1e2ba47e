// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

const usage = `usage: release [flags] [COMMAND]

Commands:
  release      write everything to dist/ (the default)
  push         the same, and push the images to the registry of -image
  archive      write only the image for -platform to dist/
  manifest     print the manifest that installs the operator without its CRDs
  image        build the container image with Docker
  rootfs DIR   write the file system of the image to DIR

Flags:
`

// errUsage is the error of a command line that was wrong. The user has been told why.
var errUsage = errors.New("wrong usage")

type options struct {
	command string
	// folder is the argument of rootfs.
	folder  string
	version string
	image   string
	dist    string
	source  string
	// downloads is where the folders of the releases are on the web.
	downloads string
	// platform is that of archive and rootfs.
	platform string
}

func parseOptions(args []string, errs io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.Usage = func() {
		_, _ = io.WriteString(errs, usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&o.version, "version", "", "version of the release, such as v1.2.3 (default: what git describes)")
	flags.StringVar(&o.image, "image", project, "name of the image without a tag, such as registry.example/"+project)
	flags.StringVar(&o.dist, "dist", "dist", "folder to write to")
	flags.StringVar(&o.source, "source", ".", "folder of the source code, such as that of an earlier version")
	flags.StringVar(&o.downloads, "downloads", downloads, "where the folders of the releases are on the web, for krew")
	flags.StringVar(&o.platform, "platform", "linux/amd64", "platform of archive and rootfs")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, err
		}
		return o, errUsage
	}
	if err := o.setCommand(flags.Args()); err != nil {
		_, _ = fmt.Fprintf(errs, "%v\n\n", err)
		flags.Usage()
		return o, errUsage
	}
	if err := checkDownloads(o.downloads); err != nil {
		return o, err
	}
	o.downloads = strings.TrimSuffix(o.downloads, "/")
	return o, checkImage(o.image, o.command)
}

// checkDownloads accepts an address on the web. The value may hold a password, so an error does not repeat it.
func checkDownloads(address string) error {
	if web, err := url.Parse(address); err != nil || web.Scheme != "https" || web.Host == "" || web.User != nil {
		return errors.New("DOWNLOADS is not an address on the web; write one such as DOWNLOADS=https://downloads.example/" + project)
	}
	return nil
}

func (o *options) setCommand(args []string) error {
	o.command = "release"
	if len(args) > 0 {
		o.command, args = args[0], args[1:]
	}
	switch {
	case !slices.Contains([]string{"release", "push", "archive", "manifest", "image", "rootfs"}, o.command):
		return fmt.Errorf("there is no command %q", o.command)
	case o.command == "rootfs" && len(args) == 1:
		o.folder = args[0]
	case o.command == "rootfs":
		return errors.New("rootfs needs one folder to write to")
	case len(args) > 0:
		return fmt.Errorf("%s takes no argument, but got %q; flags come before it", o.command, args[0])
	}
	return nil
}

// checkImage refuses what is not the name of an image. The tag is always the version.
func checkImage(image, command string) error {
	const say = "; write a name only, such as IMAGE=registry.example/" + project
	registry, _, _ := strings.Cut(image, "/")
	_, port, hasPort := strings.Cut(registry, ":")
	_, portErr := strconv.ParseUint(port, 10, 16)
	_, err := name.NewRepository(image)
	switch {
	case strings.Contains(image, "@"):
		// The value may hold a password, so it is not repeated.
		return errors.New("IMAGE has an @: it takes no credentials, and no digest, which only a push can tell" + say)
	case strings.Contains(path.Base(image), ":"):
		return fmt.Errorf("IMAGE=%s has a tag, but the tag is VERSION%s", image, say)
	case strings.ToLower(image) != image:
		return fmt.Errorf("IMAGE=%s has upper case letters, which registries refuse%s", image, say)
	case err != nil || registry == "" || strings.Contains(image, "//") || hasPort && portErr != nil:
		return fmt.Errorf("IMAGE=%q is not the name of an image%s", image, say)
	case command == "push" && !strings.Contains(image, "/"):
		return fmt.Errorf("IMAGE=%s names no registry to push to%s", image, say)
	}
	return nil
}
