// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/download"
	"miracle.dev/scaledjob-operator/test/kit/progress"
)

const (
	content    = "#!/bin/sh\necho a program\n"
	portalPage = "<html>Accept our terms to use this network.</html>"
)

func sha(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// site answers as the servers of publishers do.
type site struct {
	*httptest.Server

	stall time.Duration // how long clients wait for a byte

	mu    sync.Mutex
	asked []string // paths, in order
}

// publish starts a site that offers files by their path, such as /dl.k8s.io/…, and makes it the mirror.
func publish(t *testing.T, files map[string]http.HandlerFunc) *site {
	t.Helper()
	offered := &site{stall: time.Minute}
	offered.Server = httptest.NewTLSServer(http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		offered.mu.Lock()
		offered.asked = append(offered.asked, request.URL.Path)
		offered.mu.Unlock()
		answer, found := files[request.URL.Path]
		if !found {
			answer = http.NotFound
		}
		answer(writer, request)
	}))
	t.Cleanup(offered.Close)
	t.Setenv(partsVariable, "")
	t.Setenv(mirrorVariable, offered.URL)
	return offered
}

func (s *site) paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func text(content string) http.HandlerFunc {
	return func(writer http.ResponseWriter, _ *http.Request) { _, _ = writer.Write([]byte(content)) }
}

// trial is what has come of a program.
type trial struct {
	fetched bool
	said    string
	dir     string
}

// try has a program provided by a fetcher that trusts the site.
func try(t *testing.T, from *site, fetcher *fetcher, offer published) trial {
	t.Helper()
	result := trial{dir: t.TempDir()}
	fetcher.client = download.Client{HTTP: from.Client(), Reach: time.Minute, Answer: time.Minute, Stall: from.stall}
	target := filepath.Join(result.dir, "program")
	var log bytes.Buffer
	line := progress.Start(&log, "program v1")
	var err error
	result.fetched, err = fetcher.fetch(t.Context(), line, newTransfers(line), offer, target)
	line.Stop()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	result.said = log.String()
	return result
}

// expectProgram fails unless the folder holds the program, with the content, and nothing else.
func (r trial) expectProgram(g *WithT, content string) {
	g.THelper()
	entries, err := os.ReadDir(r.dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(entries).To(HaveLen(1))
	path := filepath.Join(r.dir, "program")
	g.Expect(os.ReadFile(path)).To(BeEquivalentTo(content))
	info, err := os.Stat(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.Mode().Perm() & 0o100).NotTo(BeZero())
}

// expectNothing fails unless nothing was fetched, and no file is left that another process would take for the program.
func (r trial) expectNothing(g *WithT) {
	g.THelper()
	g.Expect(r.fetched).To(BeFalse())
	g.Expect(filepath.Join(r.dir, "program")).NotTo(BeAnExistingFile())
}

var apiServer = published{file: "dl.k8s.io/v1/kube-apiserver", checksum: "dl.k8s.io/v1/kube-apiserver.sha256"}

const apiServerPath, apiServerChecksum = "/dl.k8s.io/v1/kube-apiserver", "/dl.k8s.io/v1/kube-apiserver.sha256"

func TestGoodDownloadIsUsed(t *testing.T) {
	g := NewWithT(t)
	from := publish(t, map[string]http.HandlerFunc{apiServerPath: text(content), apiServerChecksum: text(sha(content))})
	got := try(t, from, &fetcher{}, apiServer)
	g.Expect(got.fetched).To(BeTrue())
	g.Expect(got.said).To(Equal("Downloading program from " + hostOf(from.URL) + ", trusting its checksum.\n"))
	got.expectProgram(g, content)
}

func TestArchiveIsUnpacked(t *testing.T) {
	g := NewWithT(t)
	archive := pack(t, "etcd-v3/README.md", "etcd-v3/etcd")
	offer := published{file: "github.com/etcd.tar.gz", checksum: "github.com/SHA256SUMS", member: "etcd-v3/etcd"}
	sums := sha("another") + "  other.tar.gz\n" + sha(archive) + "  etcd.tar.gz\n"
	from := publish(t, map[string]http.HandlerFunc{"/github.com/etcd.tar.gz": text(archive), "/github.com/SHA256SUMS": text(sums)})
	got := try(t, from, &fetcher{}, offer)
	g.Expect(got.fetched).To(BeTrue())
	got.expectProgram(g, "content of etcd-v3/etcd")

	offer.member = "etcd-v3/absent"
	got = try(t, from, &fetcher{}, offer)
	g.Expect(got.said).To(ContainSubstring("can't be used: looking for etcd-v3/absent"))
	got.expectNothing(g)
}

func pack(t *testing.T, names ...string) string {
	t.Helper()
	g := NewWithT(t)
	var archive bytes.Buffer
	zipped := gzip.NewWriter(&archive)
	members := tar.NewWriter(zipped)
	for _, name := range names {
		g.Expect(members.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len("content of " + name))})).To(Succeed())
		_, err := members.Write([]byte("content of " + name))
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(members.Close()).To(Succeed())
	g.Expect(zipped.Close()).To(Succeed())
	return archive.String()
}

func TestLinkInAnArchiveIsNoProgram(t *testing.T) {
	g := NewWithT(t)
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	members := tar.NewWriter(zipped)
	g.Expect(members.WriteHeader(&tar.Header{Name: "etcd-v3/etcd", Linkname: "/bin/sh", Typeflag: tar.TypeSymlink})).To(Succeed())
	g.Expect(members.Close()).To(Succeed())
	g.Expect(zipped.Close()).To(Succeed())
	archive := packed.String()
	offer := published{file: "github.com/etcd.tar.gz", checksum: "github.com/SHA256SUMS", member: "etcd-v3/etcd"}
	from := publish(t, map[string]http.HandlerFunc{
		"/github.com/etcd.tar.gz": text(archive), "/github.com/SHA256SUMS": text(sha(archive)),
	})
	got := try(t, from, &fetcher{}, offer)
	g.Expect(got.said).To(ContainSubstring("can't be used: etcd-v3/etcd in program.download is not a file"))
	got.expectNothing(g)
}

func TestBadDownloadIsDiscardedAndTheProgramCompiled(t *testing.T) {
	right := text(sha(content))
	for name, test := range map[string]struct {
		file, checksum http.HandlerFunc
		want           string
	}{
		"corrupt": {text("another"), right, "can't be used: its SHA-256 is " + sha("another") + " instead of " + sha(content)},
		"truncated": {func(writer http.ResponseWriter, request *http.Request) {
			writer.Header().Set("Content-Length", strconv.Itoa(len(content)))
			text(content[:5])(writer, request)
		}, right, "can't be used: unexpected EOF"},
		"stalled": {func(writer http.ResponseWriter, request *http.Request) {
			text(content[:5])(writer, request)
			_ = http.NewResponseController(writer).Flush()
			<-request.Context().Done()
		}, right, "can't be used: nothing came for 100ms"},
		"no checksum":                 {text(content), http.NotFound, "kube-apiserver.sha256 answers 404 Not Found"},
		"portal instead of all":       {text(portalPage), text(portalPage), "can't be used: a web page came instead, perhaps a login of the network"},
		"portal instead of a program": {text(portalPage), right, "can't be used: a web page came instead, perhaps a login of the network"},
		"empty":                       {text(""), right, "can't be used: its SHA-256 is "},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			from := publish(t, map[string]http.HandlerFunc{apiServerPath: test.file, apiServerChecksum: test.checksum})
			if name == "stalled" {
				from.stall = 100 * time.Millisecond
			}
			got := try(t, from, &fetcher{}, apiServer)
			g.Expect(got.said).To(And(ContainSubstring(test.want), HaveSuffix("Compiling instead.\n")))
			got.expectNothing(g)
		})
	}
}

func TestRedirectToPlainHTTPIsRefused(t *testing.T) {
	g := NewWithT(t)
	from := publish(t, map[string]http.HandlerFunc{apiServerChecksum: func(writer http.ResponseWriter, request *http.Request) {
		http.Redirect(writer, request, "http://portal.example/", http.StatusFound)
	}})
	got := try(t, from, &fetcher{}, apiServer)
	g.Expect(got.said).To(ContainSubstring("can't be used: it is not HTTPS (redirected to http://portal.example). Compiling instead."))
	got.expectNothing(g)
}

func TestUnreachableHostIsAskedOnce(t *testing.T) {
	g := NewWithT(t)
	from := publish(t, nil)
	from.Close()
	shared := &fetcher{}
	g.Expect(try(t, from, shared, apiServer).said).
		To(And(HavePrefix(hostOf(from.URL)+" is not reachable ("), HaveSuffix(". Compiling instead.\n")))
	again := try(t, from, shared, apiServer)
	g.Expect(again.said).To(BeEmpty())
	again.expectNothing(g)
}

func TestCommittedDigestReplacesThePublishedOne(t *testing.T) {
	g := NewWithT(t)
	from := publish(t, map[string]http.HandlerFunc{apiServerPath: text(content), apiServerChecksum: text(sha("another"))})
	got := try(t, from, &fetcher{digests: "# A comment.\n" + sha(content) + "  " + apiServer.file + "\n"}, apiServer)
	g.Expect(got.said).To(HaveSuffix(", checking the SHA-256 in the source.\n"))
	got.expectProgram(g, content)
	g.Expect(from.paths()).To(Equal([]string{apiServerPath}))

	// A server whose file and checksum agree cannot replace the file.
	forged := publish(t, map[string]http.HandlerFunc{apiServerPath: text("forged"), apiServerChecksum: text(sha("forged"))})
	try(t, forged, &fetcher{digests: sha(content) + "  " + apiServer.file + "\n"}, apiServer).expectNothing(g)
}

func TestFileWithoutAnyDigestIsNotDownloaded(t *testing.T) {
	g := NewWithT(t)
	from := publish(t, map[string]http.HandlerFunc{apiServerPath: text(content)})
	got := try(t, from, &fetcher{}, published{file: apiServer.file})
	g.Expect(got.said).To(BeEmpty())
	got.expectNothing(g)
	g.Expect(from.paths()).To(BeEmpty())
}

func TestPartsCompileDownloadsNothing(t *testing.T) {
	g := NewWithT(t)
	from := publish(t, map[string]http.HandlerFunc{apiServerPath: text(content), apiServerChecksum: text(sha(content))})
	t.Setenv(partsVariable, compileParts)
	try(t, from, &fetcher{}, apiServer).expectNothing(g)
	g.Expect(from.paths()).To(BeEmpty())
}

func TestWrongVariablesAreRefused(t *testing.T) {
	for name, test := range map[string]struct{ variable, value, want string }{
		"parts":            {partsVariable, "prebuilt", "PARTS=prebuilt is unknown: PARTS=compile downloads nothing"},
		"mirror over HTTP": {mirrorVariable, "http://mirror.example", "is not an address such as https://mirror.example/path"},
		"mirror by name":   {mirrorVariable, "mirror.example", "is not an address such as https://mirror.example/path"},
		"mirror's query":   {mirrorVariable, "https://mirror.example/?token=hunter2", "PARTS_MIRROR is not an address such as"},
		"mirror's anchor":  {mirrorVariable, "https://mirror.example/#x", "PARTS_MIRROR is not an address such as"},
		"only a port":      {mirrorVariable, "https://:443/path", "PARTS_MIRROR is not an address such as"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			t.Setenv(partsVariable, "")
			t.Setenv(test.variable, test.value)
			_, err := (&fetcher{}).fetch(t.Context(), progress.Start(nil, ""), newTransfers(nil), apiServer, "")
			g.Expect(err).To(MatchError(ContainSubstring(test.want)))
		})
	}
}

// Credentials in the address of a mirror are used, and not shown.
func TestCredentialsOfAMirrorAreNotShown(t *testing.T) {
	for name, offer := range map[string]published{"used": apiServer, "missing": {file: "a", checksum: "b"}} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			from := publish(t, map[string]http.HandlerFunc{apiServerPath: text(content), apiServerChecksum: func(writer http.ResponseWriter, request *http.Request) {
				if user, password, _ := request.BasicAuth(); user == "reader" && password == "hunter2" {
					text(sha(content))(writer, request)
				}
			}})
			t.Setenv(mirrorVariable, strings.Replace(from.URL, https, https+"reader:hunter2@", 1))
			got := try(t, from, &fetcher{}, offer)
			g.Expect(got.fetched).To(Equal(name == "used"))
			g.Expect(got.said).To(And(ContainSubstring(hostOf(from.URL)), Not(ContainSubstring("hunter2"))))
		})
	}
}

// A fault of the disk is not one of the host, and compiling does not mend it.
func TestFaultOfTheDiskEndsIt(t *testing.T) {
	g := NewWithT(t)
	from := publish(t, map[string]http.HandlerFunc{apiServerPath: text(content), apiServerChecksum: text(sha(content))})
	faulty := fetcher{client: download.Client{HTTP: from.Client()}}
	target := filepath.Join(t.TempDir(), "missing", "program")
	_, err := faulty.fetch(t.Context(), progress.Start(nil, ""), newTransfers(progress.Start(nil, "")), apiServer, target)
	g.Expect(err).To(MatchError(fs.ErrNotExist))
}

func TestInterruptedDownloadIsNotFollowedByACompilation(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithCancel(t.Context())
	from := publish(t, map[string]http.HandlerFunc{apiServerChecksum: func(_ http.ResponseWriter, request *http.Request) {
		cancel()
		<-request.Context().Done()
	}})
	interrupted := fetcher{client: download.Client{HTTP: from.Client()}}
	_, err := interrupted.fetch(ctx, progress.Start(nil, ""), newTransfers(nil), apiServer, "")
	g.Expect(err).To(MatchError(context.Canceled))
}

func TestOfficialAddresses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		program                  Program
		version, system, machine string
		want                     published
	}{
		"kube-apiserver": {KubeAPIServer, "v1.36.3", "linux", "amd64", published{
			file:     "dl.k8s.io/v1.36.3/bin/linux/amd64/kube-apiserver",
			checksum: "dl.k8s.io/v1.36.3/bin/linux/amd64/kube-apiserver.sha256",
		}},
		"kubectl on a Mac": {Kubectl, "v1.33.13", "darwin", "arm64", published{
			file:     "dl.k8s.io/v1.33.13/bin/darwin/arm64/kubectl",
			checksum: "dl.k8s.io/v1.33.13/bin/darwin/arm64/kubectl.sha256",
		}},
		"etcd": {Etcd, "v3.6.16", "linux", "arm64", published{
			file:     "github.com/etcd-io/etcd/releases/download/v3.6.16/etcd-v3.6.16-linux-arm64.tar.gz",
			checksum: "github.com/etcd-io/etcd/releases/download/v3.6.16/SHA256SUMS",
			member:   "etcd-v3.6.16-linux-arm64/etcd",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			offer, found := publishedFor(test.program, test.version, test.system, test.machine)
			g.Expect(found).To(BeTrue())
			g.Expect(offer).To(Equal(test.want))
		})
	}
}

func TestNotAllIsPublishedForAll(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for _, program := range append(ControlPlane(), CoreDNS) {
		_, found := publishedFor(program, "v1", "darwin", "arm64")
		g.Expect(found).To(Equal(program == Kubectl), "%s on a Mac", program)
		_, found = publishedFor(program, "v1", "linux", "riscv64")
		g.Expect(found).To(BeFalse(), "%s on RISC-V", program)
	}
}

// A digest that belongs to no file of a version in use protects nothing.
func TestCommittedDigestsAreOfFilesInUse(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	used := filesInUse(t)
	for line := range strings.Lines(committedDigests) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		g.Expect(fields).To(HaveLen(2), line)
		g.Expect(fields[0]).To(MatchRegexp(hexDigest.String()))
		g.Expect(used).To(ContainElement(fields[1]))
	}
}

// filesInUse returns every published file of every version that can be selected.
func filesInUse(t *testing.T) (files []string) {
	t.Helper()
	g := NewWithT(t)
	for _, program := range slices.Concat(ControlPlane(), Node()) {
		modules, err := filepath.Glob(filepath.Join(sources[program].folder, "*", "go.mod"))
		g.Expect(err).NotTo(HaveOccurred())
		for _, module := range append(modules, filepath.Join(sources[program].folder, "go.mod")) {
			version, err := sources[program].version(filepath.Dir(module))
			if err != nil {
				continue
			}
			for _, platform := range []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"} {
				system, machine, _ := strings.Cut(platform, "/")
				if offer, found := publishedFor(program, version, system, machine); found {
					files = append(files, offer.file)
				}
			}
		}
	}
	g.Expect(files).NotTo(BeEmpty())
	return files
}
