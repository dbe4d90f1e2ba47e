// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"slices"
	"sync"

	"github.com/go-logr/logr"
)

// mostWarnings is the maximum number of warnings of one request that are kept.
const mostWarnings = 5

// Warnings are the warnings of the API server about requests with one context.
type Warnings struct {
	mu    sync.Mutex
	texts []string
}

type warningsKey struct{}

// WithWarnings returns a context whose requests add their warnings to the result.
func WithWarnings(ctx context.Context) (context.Context, *Warnings) {
	warnings := &Warnings{}
	return context.WithValue(ctx, warningsKey{}, warnings), warnings
}

// Texts returns the warnings, each in one line.
func (w *Warnings) Texts() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.texts)
}

func (w *Warnings) add(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if text = line(text); len(w.texts) < mostWarnings && !slices.Contains(w.texts, text) {
		w.texts = append(w.texts, text)
	}
}

// WarningHandler hands warnings to the context of the request. It implements rest.WarningHandlerWithContext.
type WarningHandler struct{}

// HandleWarningHeaderWithContext keeps a warning for [WithWarnings], or logs it.
func (WarningHandler) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	const miscellaneous = 299 // the code of the warnings of an API server
	if code != miscellaneous || text == "" {
		return
	}
	if warnings, wanted := ctx.Value(warningsKey{}).(*Warnings); wanted {
		warnings.add(text)
		return
	}
	logr.FromContextOrDiscard(ctx).V(1).Info("the API server warns", "warning", line(text))
}
