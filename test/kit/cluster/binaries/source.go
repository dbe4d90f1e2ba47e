// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"miracle.dev/scaledjob-operator/test/kit/gobuild"
	"miracle.dev/scaledjob-operator/test/kit/progress"
)

const (
	rootModule    = "miracle.dev/scaledjob-operator"
	nestedModules = "test/kit/cluster/binaries"
	// versions is the package with the version of each program of Kubernetes.
	versions = "k8s.io/component-base/version"
)

// source is where a program is built from.
type source struct {
	folder  string // of the nested module, below this package
	module  string // its version in the nested go.mod is the program's
	command string // the package to build
	stamped string // the package with variables for the version, if any
	static  bool   // for an image that holds no C library
}

var sources = map[Program]source{
	Etcd: {
		folder:  kubernetes,
		module:  "go.etcd.io/etcd/server/v3",
		command: "go.etcd.io/etcd/server/v3",
	},
	KubeAPIServer:     inKubernetes(KubeAPIServer),
	ControllerManager: inKubernetes(ControllerManager),
	Kubectl:           inKubernetes(Kubectl),
	Scheduler:         inKubernetes(Scheduler),
	Kubelet:           inKubernetes(Kubelet),
	Proxy:             inKubernetes(Proxy),
	CoreDNS: {
		folder:  "coredns",
		module:  "github.com/coredns/coredns",
		command: rootModule + "/" + nestedModules + "/coredns",
		static:  true,
	},
}

// inKubernetes returns where a program is built from that Kubernetes has under its name.
func inKubernetes(program Program) source {
	return source{
		folder:  kubernetes,
		module:  "k8s.io/kubernetes",
		command: "k8s.io/kubernetes/cmd/" + string(program),
		stamped: versions,
	}
}

// dir returns the folder of the nested module, found from the working
// directory: tests run in the folder of their package, commands usually at the
// root.
func (s source) dir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if isRoot(dir) {
			return s.below(filepath.Join(dir, nestedModules, s.folder))
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("the working directory is not inside " + rootModule)
		}
		dir = parent
	}
}

// below returns the folder of the nested module in dir, which is dir itself unless there is one for each version.
func (s source) below(dir string) (string, error) {
	if s.folder != kubernetes {
		return dir, nil
	}
	version, err := minor(dir)
	return filepath.Join(dir, version), err
}

// isRoot reports whether dir is the root of this repository's main module.
func isRoot(dir string) bool {
	content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	return err == nil && strings.HasPrefix(string(content), "module "+rootModule+"\n")
}

// version reads the version that the go.mod in dir requires of the module.
func (s source) version(dir string) (string, error) {
	path := filepath.Join(dir, "go.mod")
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	required := regexp.MustCompile(`(?m)^(?:require)?\s+` + regexp.QuoteMeta(s.module) + `\s+(v\S+)`)
	match := required.FindSubmatch(content)
	if match == nil {
		return "", fmt.Errorf("%s does not require %s", path, s.module)
	}
	return string(match[1]), nil
}

// compile builds programs of one module, each to its file, with progress on line.
func compile(ctx context.Context, targets map[build]string, line *progress.Line) error {
	commands, stamp := map[build]source{}, ""
	var all gobuild.Build
	for wanted, target := range targets {
		from := sources[wanted.program]
		commands[wanted], stamp = from, cmp.Or(from.stamp(wanted.version), stamp)
		all.Dir, all.Output, all.Env = wanted.dir, filepath.Dir(target)+"/", from.environment()
		all.Packages = append(all.Packages, from.command)
	}
	// No -trimpath: tests are built without it, and packages that both import are then compiled once. Nobody debugs these
	// programs, and what only they import is compiled faster without debug information.
	all.Flags = []string{"-buildvcs=false", "-ldflags=-w " + stamp, "-gcflags=k8s.io/kubernetes/...=-dwarf=false"}
	if err := all.Run(ctx, line); err != nil {
		return err
	}
	for wanted, target := range targets {
		if err := os.Rename(filepath.Join(all.Output, commands[wanted].file()), target); err != nil {
			return err
		}
	}
	return nil
}

// environment returns variables for the go command.
func (s source) environment() []string {
	if s.static {
		return []string{"GOWORK=off", "CGO_ENABLED=0"}
	}
	return []string{"GOWORK=off"}
}

// file returns the name that go build gives the program: the last part of the path that is no major version.
func (s source) file() string {
	if regexp.MustCompile(`/v\d+$`).MatchString(s.command) {
		return path.Base(path.Dir(s.command))
	}
	return path.Base(s.command)
}

// stamp returns the linker flags that tell a Kubernetes program its version.
// Without them it calls itself v0.0.0, and clients act on that.
func (s source) stamp(version string) string {
	if s.stamped == "" {
		return ""
	}
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	return fmt.Sprintf("-X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s",
		s.stamped, version, major, minor)
}
