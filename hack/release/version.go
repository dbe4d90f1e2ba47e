// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/blang/semver/v4"
)

var (
	hash = regexp.MustCompile(`^[0-9a-f]{7,40}(-dirty)?$`)
	word = regexp.MustCompile(`^[A-Za-z][0-9A-Za-z.-]*$`)
)

// semantic returns the semantic version, without v, of what git describes or a user asks for. The chart has it so.
// Everything else shows it with a v: the tag of the image, the names of the files, and --version.
//
//	v1.2.3           1.2.3            a tag
//	v1.2.3-4-gabc    1.2.3-4-gabc     four commits after it
//	108db9f          0.0.0-g108db9f   a commit where no tag is
//	dev              0.0.0-dev        a word
func semantic(described string) (string, error) {
	version := strings.TrimPrefix(described, "v")
	switch {
	case hash.MatchString(described):
		version = "0.0.0-g" + described
	case word.MatchString(version):
		version = "0.0.0-" + version
	}
	parsed, err := semver.Parse(version)
	if err != nil || len(parsed.Build) > 0 {
		return "", fmt.Errorf("VERSION=%s is not a version; write VERSION=v1.2.3 or VERSION=v1.2.3-rc.1", described)
	}
	return version, nil
}
