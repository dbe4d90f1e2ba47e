// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestCommandLines(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]options{
		"":                             {command: "release", image: project, dist: "dist", source: ".", platform: "linux/amd64", downloads: downloads},
		"-image=registry.example:5/a":  {command: "release", image: "registry.example:5/a", dist: "dist", source: ".", platform: "linux/amd64", downloads: downloads},
		"-version v1 -dist=/d release": {command: "release", version: "v1", image: project, dist: "/d", source: ".", platform: "linux/amd64", downloads: downloads},
		"-source=/s -platform=linux/arm64 archive": {
			command: "archive", image: project, dist: "dist", source: "/s", platform: "linux/arm64", downloads: downloads,
		},
		"-downloads=https://downloads.example/a/": {
			command: "release", image: project, dist: "dist", source: ".", platform: "linux/amd64", downloads: "https://downloads.example/a",
		},
		"-image=a/b push": {command: "push", image: "a/b", dist: "dist", source: ".", platform: "linux/amd64", downloads: downloads},
		"-platform=linux/arm64 rootfs /r": {
			command: "rootfs", folder: "/r", image: project, dist: "dist", source: ".", platform: "linux/arm64", downloads: downloads,
		},
	} {
		NewWithT(t).Expect(parseOptions(strings.Fields(line), t.Output())).To(Equal(want), line)
	}
}

func TestWrongCommandLines(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"-colour":                "flag provided but not defined: -colour",
		"publish":                `there is no command "publish"`,
		"rootfs":                 "rootfs needs one folder",
		"rootfs a b":             "rootfs needs one folder",
		"release -image=a/b":     `release takes no argument, but got "-image=a/b"; flags come before it`,
		"image registry.example": "image takes no argument",
	} {
		g := NewWithT(t)
		var said strings.Builder
		_, err := parseOptions(strings.Fields(line), &said)
		g.Expect(err).To(MatchError(errUsage), line)
		g.Expect(said.String()).To(And(ContainSubstring(want), ContainSubstring("usage: release")), line)
	}
	_, err := parseOptions([]string{"-help"}, t.Output())
	NewWithT(t).Expect(err).To(MatchError(flag.ErrHelp))
}

func TestImageNamesThatAreRefused(t *testing.T) {
	t.Parallel()
	for image, want := range map[string]string{
		"registry.example/a:v1":       "has a tag, but the tag is VERSION",
		"registry.example:5000/a:v1":  "has a tag, but the tag is VERSION",
		"registry.example/a@sha256:0": "no digest, which only a push can tell",
		"registry.example/A":          "has upper case letters",
		"registry.example/a b":        "is not the name of an image",
		"https://registry.example/a":  "is not the name of an image",
		"registry.example/":           "is not the name of an image",
		"registry.example:/a":         "is not the name of an image",
		"registry.example:99999/a":    "is not the name of an image",
		"/a":                          "is not the name of an image",
		"":                            "is not the name of an image",
	} {
		_, err := parseOptions([]string{"-image=" + image}, t.Output())
		NewWithT(t).Expect(err).To(MatchError(And(
			ContainSubstring(want), HaveSuffix("; write a name only, such as IMAGE=registry.example/scaledjob-operator"),
		)), image)
	}
	_, err := parseOptions([]string{"push"}, t.Output())
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("IMAGE=scaledjob-operator names no registry to push to")))
}

func TestAddressesOfDownloadsThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "downloads.example", "http://downloads.example", "https://", "https://me:secret@downloads.example", "file:///a"} {
		_, err := parseOptions([]string{"-downloads=" + address}, t.Output())
		NewWithT(t).Expect(err).To(MatchError(And(HavePrefix("DOWNLOADS is not an address on the web"), Not(ContainSubstring("secret")))), address)
	}
}

func TestNoPasswordIsRepeated(t *testing.T) {
	t.Parallel()
	for _, image := range []string{"me:secret@registry.example/a", "https://me:secret@registry.example/a", "me:secret@", "me:secret@secret@registry.example/a:v1"} {
		_, err := parseOptions([]string{"-image=" + image}, t.Output())
		NewWithT(t).Expect(err).To(MatchError(And(ContainSubstring("takes no credentials"), Not(ContainSubstring("secret")))), image)
	}
}
