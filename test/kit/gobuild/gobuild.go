// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package gobuild runs go build and shows how far it is and how long it will still take.
package gobuild

import (
	"bufio"
	"cmp"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"miracle.dev/scaledjob-operator/test/kit/progress"
)

const (
	// moduleTimeout is how long no module may come until that is said.
	moduleTimeout = time.Minute
	// lessGarbage has the compiler collect garbage less often, which saves a twelfth of its time.
	lessGarbage = "GOGC=400"
	// cached is how the go command says that a package needs no compilation.
	cached = "not installed but available in build cache"
	// linkShare is how many times as much work it is to compile everything as to link the programs.
	linkShare = 40
	// listFormat prints the import path of a package, why it is to be compiled, its folder and its source files.
	listFormat = "{{.ImportPath}}\t{{.StaleReason}}\t{{.Dir}}\t{{join .GoFiles \"\t\"}}\t{{join .CgoFiles \"\t\"}}"
)

// Build is what to build.
type Build struct {
	Dir      string   // of the module
	Env      []string // besides that of this process
	Flags    []string // of go build, without -o
	Packages []string
	// Output is the file of the program, or with a slash at its end the folder of several. Without it, the packages are
	// only compiled.
	Output string
	// After returns how much is to be compiled afterwards, for the estimate. It may be nil.
	After func() Work
}

// Run builds, and shows on line how far it is.
func (b Build) Run(ctx context.Context, line *progress.Line) error {
	line.Status("looking for what is to be compiled")
	watch := &watcher{line: line, after: b.After, patience: moduleTimeout}
	stale, total, err := b.stale(ctx, watch)
	if err != nil {
		return err
	}
	if b.Output != "" {
		watch.link = total / linkShare
	}
	watch.compile(stale)
	_, err = b.command(ctx, watch, "build", "-v", "-o="+cmp.Or(b.Output, os.DevNull))
	return err
}

// stale returns the packages that have to be compiled, and how much all are, with those that do not. The first time, the
// modules are downloaded meanwhile.
func (b Build) stale(ctx context.Context, watch *watcher) (stale map[string]Work, total Work, err error) {
	watch.stalled = time.AfterFunc(watch.patience, func() {
		watch.line.Say("No module has come for %s. GOPROXY is %s. Press Ctrl-C to stop: the modules that have come are kept.",
			progress.Roughly(watch.patience), b.proxies(ctx))
	})
	defer watch.stalled.Stop()
	listed, err := b.command(ctx, watch, "list", "-deps", "-f="+listFormat)
	if err != nil {
		return nil, 0, err
	}
	stale = map[string]Work{}
	for text := range strings.Lines(listed) {
		fields := strings.Split(strings.TrimSpace(text), "\t")
		if len(fields) < 3 {
			continue
		}
		work := perPackage + sizeOf(fields[2], fields[3:])
		total += work
		if fields[1] != "" && fields[1] != cached {
			stale[fields[0]] = work
		}
	}
	return stale, total, nil
}

// proxies returns where Go downloads modules from, without credentials: "proxy.example,direct".
func (b Build) proxies(ctx context.Context) string {
	value, err := Command{Dir: b.Dir, Env: b.Env}.Output(ctx, "env", "GOPROXY")
	if err != nil {
		return "unknown"
	}
	return regexp.MustCompile(`\w+://([^/,|\s]*@)?([^/,|\s]*)[^,|\s]*`).ReplaceAllString(strings.TrimSpace(string(value)), "$2")
}

// sizeOf returns the size of files in a folder. What cannot be read counts as nothing.
func sizeOf(dir string, files []string) (size Work) {
	for _, file := range files {
		if info, err := os.Stat(filepath.Join(dir, file)); err == nil && !info.IsDir() {
			size += Work(info.Size())
		}
	}
	return size
}

// command runs the go command and returns its standard output.
func (b Build) command(ctx context.Context, watch *watcher, args ...string) (string, error) {
	command := Command{Dir: b.Dir, Env: append([]string{lessGarbage}, b.Env...), read: watch.read}
	output, err := command.Output(ctx, slices.Concat(args, b.Flags, b.Packages)...)
	return string(output), err
}

// watcher follows the lines of the go command.
type watcher struct {
	line       *progress.Line
	patience   time.Duration // how long no module may come until that is said
	stalled    *time.Timer   // says it, once
	after      func() Work   // may be nil
	downloaded int
	compiling  bool
	stale      map[string]Work // the packages that are not compiled yet
	total      int             // of the packages to compile
	left       Work
	link       Work
	begin      time.Time
}

// compile says which packages the following lines are about.
func (w *watcher) compile(stale map[string]Work) {
	w.compiling, w.stale, w.total, w.begin = true, stale, len(stale), time.Now()
	for _, size := range stale {
		w.left += size
	}
	w.show()
}

// read follows the lines until the end, and returns those that are no progress.
func (w *watcher) read(from io.Reader) (messages string) {
	var rest strings.Builder
	for lines := bufio.NewScanner(from); lines.Scan(); w.show() {
		switch text := lines.Text(); {
		case strings.HasPrefix(text, "go: downloading "):
			w.downloaded++
			if w.stalled != nil && w.stalled.Stop() {
				w.stalled.Reset(w.patience)
			}
		case w.compiling && !strings.ContainsAny(text, " \t"):
			w.compiled(text)
		default:
			rest.WriteString(text + "\n")
		}
	}
	_, _ = io.Copy(&rest, from) // a line that is too long to scan
	return rest.String()
}

func (w *watcher) compiled(path string) {
	size, found := w.stale[path]
	if !found {
		return
	}
	delete(w.stale, path)
	w.left -= size
	Machine.compiled(size, time.Since(w.begin))
	w.begin = time.Now()
}

func (w *watcher) show() {
	switch {
	case !w.compiling && w.downloaded > 0:
		w.line.Status("downloading modules, %d so far", w.downloaded)
	case !w.compiling:
	case len(w.stale) > 0:
		w.line.Left(Machine.Estimate(w.left + w.link + w.afterwards()))
		w.line.Status("%d of %d packages", w.total-len(w.stale), w.total)
	default:
		w.line.Left(Machine.Estimate(w.link + w.afterwards()))
		w.line.Status("linking")
	}
}

func (w *watcher) afterwards() Work {
	if w.after == nil {
		return 0
	}
	return w.after()
}
