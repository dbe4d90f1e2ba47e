// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// TestReadmeWithKind runs the commands by which the README installs and uses the operator with kind, and those that
// remove it.
func TestReadmeWithKind(t *testing.T) {
	deleteCRD(t) // as in a new cluster
	removeAllAtEnd(t)
	follow(t, commandsOf(t, readmePage, "With kind"))
	NewWithT(t).Eventually(completeJobs).WithArguments(t, "default").Should(Equal(3))
	shell(t, "kubectl -n default get sjob,jobs")
	follow(t, only("kubectl", commandsOf(t, installPage, "Uninstall")))
}

// TestReadmeInACluster pushes the image to a registry and has the node pull it, with kubectl and with Helm. The nodes
// of kind can't reach this registry; they have the image already.
func TestReadmeInACluster(t *testing.T) {
	skip.UnderShort(t, "TestReadmeWithKind follows the README too, and the tests of hack/release push images")
	image := ContainSubstring("@sha256:")
	if onKind() {
		image = Not(BeEmpty())
	}
	removeAllAtEnd(t)
	keepRelease(t)
	follow(t, commandsOf(t, readmePage, "In a cluster"))
	awaitOperator(t)
	NewWithT(t).Expect(runningImage(t)).To(image)
	upgrade, uninstall := commandsOf(t, upgradePage, "Upgrade"), commandsOf(t, installPage, "Uninstall")
	follow(t, only("kubectl", upgrade))
	awaitOperator(t)
	follow(t, only("kubectl", uninstall))

	follow(t, commandsOf(t, readmePage, "With Helm"))
	awaitOperator(t)
	NewWithT(t).Expect(runningImage(t)).To(image)
	follow(t, only("helm", upgrade))
	awaitOperator(t)
	follow(t, only("helm", uninstall))
	follow(t, uninstall[len(uninstall)-1:])
}

// keepRelease restores dist at the end of the test: after a push, it names a registry that is gone by then.
func keepRelease(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	kept := filepath.Join(t.TempDir(), "dist")
	g.Expect(os.CopyFS(kept, os.DirFS(root("dist")))).To(Succeed())
	t.Cleanup(func() {
		g.Expect(os.RemoveAll(root("dist"))).To(Succeed())
		g.Expect(os.CopyFS(root("dist"), os.DirFS(kept))).To(Succeed())
	})
}

// Pages with commands.
const (
	readmePage  = "README.md"
	installPage = "docs/how-to/install.md"
	upgradePage = "docs/how-to/upgrade.md"
)

// shellBlock is one in a page, or in a list of a page.
var shellBlock = regexp.MustCompile("(?ms)^ *```shell\n(.*?)^ *```$")

// commandsOf returns the commands of a section of a page. A command with a placeholder is for readers only.
func commandsOf(t *testing.T, page, heading string) []string {
	t.Helper()
	g := NewWithT(t)
	content := must.Get(os.ReadFile(root(page)))(g)
	found := regexp.MustCompile(`(?ms)^##+ ` + regexp.QuoteMeta(heading) + `\n(.*?)(^##+ |\z)`).FindStringSubmatch(string(content))
	g.Expect(found).NotTo(BeNil(), "%s has no section %s", page, heading)
	var commands []string
	for _, block := range shellBlock.FindAllStringSubmatch(found[1], -1) {
		for line := range strings.Lines(block[1]) {
			if command := strings.TrimSpace(line); !strings.Contains(command, " NAME ") {
				commands = append(commands, command)
			}
		}
	}
	g.Expect(commands).NotTo(BeEmpty(), heading)
	return commands
}

func only(program string, commands []string) []string {
	var chosen []string
	for _, command := range commands {
		if strings.HasPrefix(command, program+" ") {
			chosen = append(chosen, command)
		}
	}
	return chosen
}

// follow runs commands as they are written, with these exceptions: the release is there already, the shared cluster is
// the one that kind creates, and registry.example is a registry on the node.
func follow(t *testing.T, commands []string) {
	t.Helper()
	for _, command := range commands {
		archive, isLoad := strings.CutPrefix(command, "kind load image-archive ")
		archive = strings.ReplaceAll(archive, "amd64", runtime.GOARCH)
		switch {
		case isLoad:
			archives := must.Get(filepath.Glob(root(archive)))(NewWithT(t))
			NewWithT(t).Expect(archives).To(HaveLen(1), archive)
			NewWithT(t).Expect(shared.ImportImage(t.Context(), archives[0])).To(Succeed())
		case command == "make release", command == "kind create cluster":
		case onKind() && strings.HasPrefix(command, "make push "):
		case strings.HasPrefix(command, "make push "):
			shell(t, strings.ReplaceAll(command, "registry.example", newRegistry(t)))
		default:
			shell(t, command)
		}
	}
}

// newRegistry starts a registry that ends with the test, and returns its address, which the node trusts without TLS.
func newRegistry(t *testing.T) string {
	t.Helper()
	listener := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(NewWithT(t))
	server := &http.Server{Handler: registry.New(), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return listener.Addr().String()
}

// completeJobs returns how many Jobs of a namespace are complete.
func completeJobs(t *testing.T, namespace string) int {
	t.Helper()
	return strings.Count(kubectl(t, "--namespace="+namespace, "get", "jobs", "-o",
		`jsonpath={range .items[*]}{.status.conditions[?(@.type=="Complete")].status}{"\n"}{end}`), "True")
}

func runningImage(t *testing.T) string {
	t.Helper()
	return kubectl(t, "--namespace="+system, "get", deployment, "-o", "jsonpath={.spec.template.spec.containers[0].image}")
}
