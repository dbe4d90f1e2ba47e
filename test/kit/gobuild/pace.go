// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package gobuild

import (
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

const (
	// trialTime is how long the trial lasts that measures how fast this machine is.
	trialTime = 200 * time.Millisecond
	// perPackage is how many bytes of source take as long to compile as a package without any.
	perPackage = 500_000
	// parsing is how many times as fast the Go parser reads source as go build does its work.
	parsing = 13
	// trialWeight is how much work has to be done until what was measured counts as much as the trial.
	trialWeight = 40_000_000
)

// Work is how much there is to compile: the bytes of source, and perPackage for each package.
type Work int64

// Machine is how fast this machine compiles.
var Machine Pace

// Pace estimates how long compiling takes: at first from a short trial, and the more was compiled, the more from that. It
// is safe for concurrent use.
type Pace struct {
	mu   sync.Mutex
	work float64
	time float64 // in seconds, for this work
}

// Estimate returns how long work takes. The first call takes a fraction of a second.
func (p *Pace) Estimate(work Work) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.work == 0 {
		p.work, p.time = trialWeight, trialWeight*parsing/parse()
	}
	return time.Duration(float64(work) * p.time / p.work * float64(time.Second))
}

// compiled notes how long work took.
func (p *Pace) compiled(work Work, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.work > 0 {
		p.work += float64(work)
		p.time += took.Seconds()
	}
}

// parse returns how many bytes of source all processors together parse in a second.
func parse() float64 {
	files, err := filepath.Glob(filepath.Join(build.Default.GOROOT, "src", "net", "http", "*.go"))
	if err != nil || len(files) == 0 {
		return 1
	}
	var (
		group  sync.WaitGroup
		mu     sync.Mutex
		parsed float64
	)
	begin := time.Now()
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i := 0; time.Since(begin) < trialTime; i++ {
				source, err := os.ReadFile(files[i%len(files)])
				if err != nil {
					continue
				}
				_, _ = parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
				mu.Lock()
				parsed += float64(len(source))
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return max(parsed, 1) / time.Since(begin).Seconds()
}
