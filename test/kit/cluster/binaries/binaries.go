// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package binaries finds the programs of a Kubernetes control plane, and
// kubectl. Each is downloaded once from where its project publishes it, or else
// compiled from the Go modules pinned below this folder. K8S selects the minor
// version of Kubernetes.
//
// It does not try setup-envtest: that has no kube-controller-manager. Whoever
// has run it points KUBEBUILDER_ASSETS at what it fetched.
package binaries

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"miracle.dev/scaledjob-operator/test/kit/cluster/toolcache"
	"miracle.dev/scaledjob-operator/test/kit/progress"
)

// Program is a program this package finds.
type Program string

// The programs of a control plane, and the one that users talk to it with.
const (
	Etcd              Program = "etcd"
	KubeAPIServer     Program = "kube-apiserver"
	ControllerManager Program = "kube-controller-manager"
	Kubectl           Program = "kubectl"
)

// The programs that a real node needs besides.
const (
	Scheduler Program = "kube-scheduler"
	Kubelet   Program = "kubelet"
	Proxy     Program = "kube-proxy"
	CoreDNS   Program = "coredns"
)

// ControlPlane returns what all tests need.
func ControlPlane() []Program {
	return []Program{KubeAPIServer, ControllerManager, Etcd, Kubectl}
}

// Demo returns what the demo needs of it.
func Demo() []Program {
	return []Program{KubeAPIServer, ControllerManager, Etcd}
}

// Node returns what a real node needs besides.
func Node() []Program {
	return []Program{Scheduler, Kubelet, Proxy, CoreDNS}
}

// assetsVariable names the folder that controller-runtime's test environment
// takes its programs from.
const assetsVariable = "KUBEBUILDER_ASSETS"

// Path is Paths for one program.
func Path(ctx context.Context, log io.Writer, program Program) (string, error) {
	paths, err := Paths(ctx, log, program)
	return paths[program], err
}

// Paths returns the path of each program: in the folder KUBEBUILDER_ASSETS
// names if it is there, in the cache folder if it was made before, else
// downloaded or compiled now, with progress on log. It must be called from
// inside the source of this module, as the nested modules are found from there.
func Paths(ctx context.Context, log io.Writer, programs ...Program) (map[Program]string, error) {
	paths, err := Download(ctx, log, programs...)
	if err != nil {
		return nil, err
	}
	missing := map[string][]build{} // by the folder of the module
	for _, program := range programs {
		if paths[program] == "" {
			located, err := locate(program)
			if err != nil {
				return nil, err
			}
			missing[located.dir] = append(missing[located.dir], located)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(missing)) {
		compiled, err := compileAll(ctx, log, missing[dir])
		if err != nil {
			return nil, err
		}
		maps.Copy(paths, compiled)
	}
	return paths, nil
}

// Missing returns those programs that Paths would have to download or compile.
func Missing(programs ...Program) ([]Program, error) {
	var missing []Program
	for _, program := range programs {
		if _, found := asset(program); found {
			continue
		}
		located, err := locate(program)
		if err != nil {
			return nil, err
		}
		exists, err := toolcache.Exists(located.folder(), string(program))
		if err != nil {
			return nil, err
		}
		if !exists {
			missing = append(missing, program)
		}
	}
	return missing, nil
}

// Download is Paths without compiling: what cannot be downloaded is not in its result.
func Download(ctx context.Context, log io.Writer, programs ...Program) (map[Program]string, error) {
	paths := map[Program]string{}
	var wanted []build
	for _, program := range programs {
		if path, found := asset(program); found {
			paths[program] = path
			continue
		}
		located, err := locate(program)
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, located)
	}
	provided, err := provide(ctx, log, "downloading", wanted, func(ctx context.Context, targets map[build]string, line *progress.Line) error {
		return internet.fetchAll(ctx, line, targets)
	})
	maps.Copy(paths, provided)
	return paths, err
}

// compileAll returns the paths of programs of one module, which are compiled now.
func compileAll(ctx context.Context, log io.Writer, programs []build) (map[Program]string, error) {
	return provide(ctx, log, "compiling", programs, compile)
}

// provide returns the paths of programs in the cache. Those that are not there are made now, each as the file that is its
// target. A program that has no target afterwards is not in the result.
func provide(
	ctx context.Context, log io.Writer, activity string, programs []build,
	fill func(ctx context.Context, targets map[build]string, line *progress.Line) error,
) (map[Program]string, error) {
	wanted := map[string]string{} // by their folder
	var names []string
	for _, each := range programs {
		wanted[each.folder()], names = string(each.program), append(names, string(each.program))
	}
	tools := toolcache.Tools{Programs: wanted, Activity: activity + " " + strings.Join(names, ", ")}
	tools.Make = func(ctx context.Context, missing map[string]string, line *progress.Line) error {
		targets := map[build]string{}
		for _, each := range programs {
			if dir, isMissing := missing[each.folder()]; isMissing {
				targets[each] = filepath.Join(dir, string(each.program))
			}
		}
		return errors.Join(fill(ctx, targets, line), removeWithout(targets))
	}
	dirs, err := tools.Dirs(ctx, log)
	paths := map[Program]string{}
	for _, each := range programs {
		if dir := dirs[each.folder()]; dir != "" {
			paths[each.program] = filepath.Join(dir, string(each.program))
		}
	}
	return paths, err
}

// removeWithout removes the folders of targets that do not exist, so that only complete ones are kept.
func removeWithout(targets map[build]string) error {
	var errs []error
	for _, target := range targets {
		if _, err := os.Stat(target); err != nil {
			errs = append(errs, os.RemoveAll(filepath.Dir(target)))
		}
	}
	return errors.Join(errs...)
}

// build is a program, and where it is built from.
type build struct {
	program Program
	dir     string // of the module that pins it
	version string
}

// folder returns the name of the program's folder in the cache.
func (b build) folder() string {
	return fmt.Sprintf("%s-%s-%s-%s", b.program, b.version, runtime.GOOS, runtime.GOARCH)
}

// locate returns where a program is built from.
func locate(program Program) (build, error) {
	from, found := sources[program]
	if !found {
		return build{}, fmt.Errorf("%q is no program of a control plane", program)
	}
	dir, err := from.dir()
	if err != nil {
		return build{}, fmt.Errorf("finding the source of %s: %w", program, err)
	}
	version, err := from.version(dir)
	if err != nil {
		return build{}, fmt.Errorf("finding the version of %s: %w", program, err)
	}
	return build{program: program, dir: dir, version: version}, nil
}

func asset(program Program) (path string, found bool) {
	dir := os.Getenv(assetsVariable)
	if dir == "" {
		return "", false
	}
	path, err := exec.LookPath(filepath.Join(dir, string(program)))
	return path, err == nil
}
