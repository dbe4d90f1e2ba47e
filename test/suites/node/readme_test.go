// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// TestReadmeWithKind runs the commands by which the README installs, uses and removes the operator with kind.
func TestReadmeWithKind(t *testing.T) {
	deleteCRD(t) // as in a new cluster
	removeAllAtEnd(t)
	follow(t, readme(t, "With kind"))
	NewWithT(t).Eventually(completeJobs).WithArguments(t, "default").Should(Equal(3))
	shell(t, "kubectl -n default get sjob,jobs")
	follow(t, only("kubectl", readme(t, "Uninstall")))
}

// TestReadmeInACluster pushes the image to a registry and has the node pull it, with kubectl and with Helm. The nodes of
// kind can't reach this registry; they have the image already.
func TestReadmeInACluster(t *testing.T) {
	skip.UnderShort(t, "TestReadmeWithKind follows the README too, and the tests of hack/release push images")
	image := ContainSubstring("@sha256:")
	if onKind() {
		image = Not(BeEmpty())
	}
	removeAllAtEnd(t)
	keepRelease(t)
	follow(t, readme(t, "In a cluster"))
	awaitOperator(t)
	NewWithT(t).Expect(runningImage(t)).To(image)
	follow(t, only("kubectl", readme(t, "Upgrade"))[:1]) // there is no version before to return to
	awaitOperator(t)
	uninstall := readme(t, "Uninstall")
	follow(t, only("kubectl", uninstall))

	follow(t, readme(t, "With Helm"))
	awaitOperator(t)
	NewWithT(t).Expect(runningImage(t)).To(image)
	follow(t, only("helm", readme(t, "Upgrade")))
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

// readme returns the commands of a section of the README.
func readme(t *testing.T, heading string) []string {
	t.Helper()
	g := NewWithT(t)
	content, err := os.ReadFile(root("README.md"))
	g.Expect(err).NotTo(HaveOccurred())
	_, section, found := strings.Cut(string(content), "\n### "+heading+"\n")
	g.Expect(found).To(BeTrue(), heading)
	section, _, _ = strings.Cut(section, "\n#")
	var commands []string
	for line := range strings.Lines(section) {
		if command, isCommand := strings.CutPrefix(line, "    "); isCommand {
			commands = append(commands, strings.TrimSpace(command))
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
			archives, err := filepath.Glob(root(archive))
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
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
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
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
