// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keda

import (
	"context"
	"io"
	"path/filepath"

	"miracle.dev/scaledjob-operator/test/kit/programs"
)

const (
	// program is KEDA's operator, and crds the folder next to it with its CustomResourceDefinitions.
	program = "keda-operator"
	crds    = "crds"
)

// Program is KEDA's operator and its CustomResourceDefinitions, as files.
type Program struct {
	folder string
}

// Build returns the program, see package programs.
func Build(ctx context.Context, log io.Writer) (Program, error) {
	path, err := programs.Path(ctx, log, program)
	return Program{folder: filepath.Dir(path)}, err
}

// CRDs returns the folder with KEDA's CustomResourceDefinitions, for tests that need its objects and not its operator.
func CRDs(ctx context.Context) (string, error) {
	source, err := programs.Source(ctx, "keda", "github.com/kedacore/keda/v2")
	return filepath.Join(source, "config", "crd", "bases"), err
}
