// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// source is what git knows of the source code.
type source struct {
	// described is the version in the words of git describe.
	described string
	revision  string
	committed time.Time
}

// readSource asks git.
func readSource(ctx context.Context, root string) (source, error) {
	git := func(args ...string) (string, error) {
		out, err := command(ctx, root, nil, "git", args...)
		return strings.TrimSpace(string(out)), err
	}
	switch below, err := git("rev-parse", "--show-prefix"); {
	case err != nil:
		return source{}, err
	case below != "":
		return source{}, errors.New("the folder is part of another repository")
	}
	// The length of an abbreviated hash depends on the clone, unless it is given.
	described, err := git("describe", "--tags", "--match=v[0-9]*", "--always", "--abbrev=12")
	if err != nil {
		return source{}, err
	}
	changes, err := git("status", "--porcelain")
	if err != nil {
		return source{}, err
	}
	commit, err := git("log", "-1", "--format=%H %ct")
	if err != nil {
		return source{}, err
	}
	revision, seconds, _ := strings.Cut(commit, " ")
	if changes != "" {
		described, revision = described+"-dirty", revision+"-dirty"
	}
	committed, err := unixTime(seconds)
	return source{described, revision, committed}, err
}

// creationTime is the time that images show as theirs: what SOURCE_DATE_EPOCH says, or else that of the commit. A
// source tree without git has 1970.
func creationTime(committed time.Time) (time.Time, error) {
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	switch {
	case epoch != "":
		at, err := unixTime(epoch)
		if err != nil {
			return at, fmt.Errorf("SOURCE_DATE_EPOCH=%s is not a number of seconds since 1970", epoch)
		}
		return at, nil
	case committed.IsZero():
		return time.Unix(0, 0).UTC(), nil
	}
	return committed, nil
}

// unixTime returns an error for times after 2106: the formats of archives end at various years.
func unixTime(seconds string) (time.Time, error) {
	number, err := strconv.ParseInt(seconds, 10, 33)
	return time.Unix(number, 0).UTC(), err
}
