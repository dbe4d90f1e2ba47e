// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"archive/tar"
	"compress/gzip"
	"context"
	_ "embed" // the digests
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"miracle.dev/scaledjob-operator/test/kit/download"
	"miracle.dev/scaledjob-operator/test/kit/progress"
)

const (
	// partsVariable says where programs come from, and mirrorVariable from which address instead of the official ones.
	partsVariable  = "PARTS"
	compileParts   = "compile"
	mirrorVariable = "PARTS_MIRROR"
	https          = "https://"
)

//go:embed digests.txt
var committedDigests string

// hexDigest matches a SHA-256.
var hexDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)

// fetcher downloads programs. It is safe for concurrent use.
type fetcher struct {
	client  download.Client
	digests string // as in digests.txt

	mu     sync.Mutex
	failed map[string]bool // hosts that are not asked again
}

// internet is the fetcher of this process.
var internet = &fetcher{digests: committedDigests}

// fetchAll downloads programs at the same time, each to its file. Those that it cannot have it leaves out, and says so on
// line.
func (f *fetcher) fetchAll(ctx context.Context, line *progress.Line, targets map[build]string) error {
	group, ctx := errgroup.WithContext(ctx)
	shown := newTransfers(line)
	for wanted, target := range targets {
		offer, found := publishedFor(wanted.program, wanted.version, runtime.GOOS, runtime.GOARCH)
		if !found {
			continue
		}
		group.Go(func() error {
			_, err := f.fetch(ctx, line, shown, offer, target)
			return err
		})
	}
	return group.Wait()
}

// fetch downloads a program and reports whether it did. If it could not, it says so on line.
func (f *fetcher) fetch(
	ctx context.Context, line *progress.Line, shown *transfers, offer published, target string,
) (bool, error) {
	prefix, err := origin()
	if err != nil || prefix == "" {
		return false, err
	}
	digest := committed(f.digests, offer.file)
	host := hostOf(prefix + offer.file)
	if (digest == "" && offer.checksum == "") || f.hasFailed(host) {
		return false, nil
	}
	err = f.get(ctx, line, shown, offer, prefix, digest, target)
	if err == nil || ctx.Err() != nil {
		return err == nil, err
	}
	if fault, isLocal := errors.AsType[*fs.PathError](err); isLocal {
		return false, fault // such as a full disk, on which nothing can be compiled either
	}
	switch first := f.fail(host); {
	case !errors.Is(err, download.ErrUnreachable):
		line.Say("%s from %s can't be used: %v. Compiling instead.", filepath.Base(target), host, err)
	case first:
		line.Say("%s is %v. Compiling instead.", host, err)
	}
	return false, nil
}

// hostOf returns the host of an address, without credentials.
func hostOf(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return parsed.Host
}

// origin returns the start of the addresses to download from, or "" if nothing shall be downloaded.
func origin() (prefix string, err error) {
	switch parts := os.Getenv(partsVariable); parts {
	case "":
	case compileParts:
		return "", nil
	default:
		return "", fmt.Errorf("%s=%s is unknown: %s=%s downloads nothing", partsVariable, parts, partsVariable, compileParts)
	}
	mirror := os.Getenv(mirrorVariable)
	if mirror == "" {
		return https, nil
	}
	parsed, err := url.Parse(mirror)
	if err != nil || parsed.Scheme != "https" || parsed.Hostname() == "" || strings.ContainsAny(mirror, "?#") {
		// The value may hold credentials.
		return "", fmt.Errorf("%s is not an address such as https://mirror.example/path", mirrorVariable)
	}
	return strings.TrimSuffix(mirror, "/") + "/", nil
}

// get downloads a program. An empty digest is replaced by the one that is published beside the file.
func (f *fetcher) get(
	ctx context.Context, line *progress.Line, shown *transfers, offer published, prefix, digest, target string,
) error {
	trust := "checking the SHA-256 in the source"
	if digest == "" {
		trust = "trusting its checksum"
		text, err := f.client.Text(ctx, prefix+offer.checksum)
		if err != nil {
			return err
		}
		if digest, err = digestOf(text, path.Base(offer.file)); err != nil {
			return fmt.Errorf("%s: %w", offer.checksum, err)
		}
	}
	line.Say("Downloading %s from %s, %s.", filepath.Base(target), hostOf(prefix+offer.file), trust)
	file := target + ".download"
	if err := f.client.File(ctx, prefix+offer.file, digest, file, shown.of(offer.file)); err != nil {
		return err
	}
	if offer.member == "" {
		return errors.Join(os.Chmod(file, 0o755), os.Rename(file, target))
	}
	return errors.Join(extract(file, offer.member, target), os.Remove(file))
}

// transfers are downloads at the same time.
type transfers struct {
	line *progress.Line

	mu             sync.Mutex
	received, size map[string]int64 // in bytes, by the file
}

func newTransfers(line *progress.Line) *transfers {
	return &transfers{line: line, received: map[string]int64{}, size: map[string]int64{}}
}

// of returns a function that shows on the line how much was received of a file and of the others.
func (t *transfers) of(file string) func(received, size int64) {
	const megabyte = 1_000_000
	return func(received, size int64) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.received[file], t.size[file] = received, max(received, size)
		var allReceived, allSize int64
		for file := range t.received {
			allReceived, allSize = allReceived+t.received[file], allSize+t.size[file]
		}
		t.line.Status("%d of %d MB", allReceived/megabyte, allSize/megabyte)
	}
}

// committed returns the digest of a file among those in the source, or "".
func committed(digests, file string) string {
	for line := range strings.Lines(digests) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[1] == file {
			return fields[0]
		}
	}
	return ""
}

// digestOf finds the digest of a file in what is published as its checksum: the digest alone, or one for each file.
func digestOf(text, name string) (string, error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || !hexDigest.MatchString(fields[0]) {
			continue
		}
		if len(fields) == 1 || strings.TrimPrefix(fields[1], "*") == name {
			return fields[0], nil
		}
	}
	return "", errors.New("no SHA-256 of " + name + " is there")
}

// extract writes a member of an archive to the file target.
func extract(archive, member, target string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return fmt.Errorf("reading %s: %w", path.Base(archive), err)
	}
	members := tar.NewReader(unzipped)
	for {
		header, err := members.Next()
		if err != nil {
			return fmt.Errorf("looking for %s in %s: %w", member, path.Base(archive), err)
		}
		if header.Name != member {
			continue
		}
		if header.Typeflag != tar.TypeReg {
			return fmt.Errorf("%s in %s is not a file", member, path.Base(archive))
		}
		return writeProgram(target, members)
	}
}

func writeProgram(target string, content io.Reader) error {
	file, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	if err := errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(target))
	}
	return nil
}

func (f *fetcher) hasFailed(host string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed[host]
}

// fail notes that a host has failed, and reports whether it is the first time.
func (f *fetcher) fail(host string) (first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed == nil {
		f.failed = map[string]bool{}
	}
	first = !f.failed[host]
	f.failed[host] = true
	return first
}
