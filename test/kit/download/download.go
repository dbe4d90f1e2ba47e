// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package download fetches files over HTTPS, gives up soon when nothing comes, and keeps only what has the right digest.
package download

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"
)

const (
	reachTimeout = 3 * time.Second
	stallTimeout = 10 * time.Second
	// textLimit bounds a list of checksums.
	textLimit = 1 << 20
	// fileLimit bounds a file, which is several times as large as any program.
	fileLimit    = 1 << 30
	maxRedirects = 10
)

// ErrUnreachable means that a server has not answered, or not over HTTPS.
var ErrUnreachable = errors.New("not reachable")

// Client downloads. The zero value is one for the internet.
type Client struct {
	HTTP *http.Client
	// Reach is how long a server may take until it answers, and Stall how long no byte may come then.
	Reach, Stall time.Duration
	// Limit is how many bytes of a file are read. What is longer has the wrong digest.
	Limit int64
}

// Text returns what is at the address, if it is short.
func (c Client) Text(ctx context.Context, address string) (text string, err error) {
	err = c.get(ctx, address, func(body io.Reader, _ int64) error {
		content, err := io.ReadAll(io.LimitReader(body, textLimit))
		text = string(content)
		return err
	})
	return text, err
}

// File writes what is at the address to the file target, if its SHA-256 is digest. Otherwise there is no such file. It
// calls show with the bytes that have come and the size, which is negative if the server has not told it.
func (c Client) File(ctx context.Context, address, digest, target string, show func(come, size int64)) error {
	sum := sha256.New()
	err := c.get(ctx, address, func(body io.Reader, size int64) error {
		shown := &shownReader{body: body, show: func(come int64) { show(come, size) }}
		return write(target, io.TeeReader(io.LimitReader(shown, cmp.Or(c.Limit, fileLimit)), sum))
	})
	if err != nil {
		return errors.Join(err, os.RemoveAll(target))
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != digest {
		return errors.Join(fmt.Errorf("its SHA-256 is %s instead of %s", got, digest), os.RemoveAll(target))
	}
	return nil
}

func write(target string, content io.Reader) error {
	file, err := os.Create(target)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}

// get calls read with the answer. It ends the request when nothing comes.
func (c Client) get(ctx context.Context, address string, read func(body io.Reader, size int64) error) error {
	c = c.complete()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(c.Reach, func() { cancel(fmt.Errorf("no answer within %s", c.Reach)) })
	defer watchdog.Stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept-Encoding", "identity") // a compressed answer does not tell the size
	response, err := c.follower(watchdog).Do(request)
	if err != nil {
		return fmt.Errorf("%w (%w)", ErrUnreachable, cause(ctx, err))
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", request.URL.Redacted(), response.Status)
	}
	watchdog.Stop()
	stalled := time.AfterFunc(c.Stall, func() { cancel(fmt.Errorf("nothing came for %s", c.Stall)) })
	defer stalled.Stop()
	body := &shownReader{body: response.Body, show: func(int64) { stalled.Reset(c.Stall) }}
	err = read(body, response.ContentLength)
	if ended := context.Cause(ctx); ended != nil {
		return ended // even without an error: a server may end its answer when it hears that nobody waits for more
	}
	return err
}

func (c Client) complete() Client {
	if c.HTTP == nil {
		c.HTTP = http.DefaultClient
	}
	if c.Reach == 0 {
		c.Reach = reachTimeout
	}
	if c.Stall == 0 {
		c.Stall = stallTimeout
	}
	return c
}

// follower returns a client that follows a redirect only over HTTPS, and gives each server the time to answer.
func (c Client) follower(watchdog *time.Timer) *http.Client {
	web := *c.HTTP
	web.CheckRedirect = func(next *http.Request, via []*http.Request) error {
		if next.URL.Scheme != "https" {
			return fmt.Errorf("redirected to %s, which is not HTTPS", next.URL.Redacted())
		}
		if len(via) >= maxRedirects {
			return fmt.Errorf("redirected %d times", len(via))
		}
		watchdog.Reset(c.Reach)
		return nil
	}
	return &web
}

// cause returns why ctx ended if it did, else what an error of a request is about.
func cause(ctx context.Context, err error) error {
	if ended := context.Cause(ctx); ended != nil {
		return ended
	}
	if request, isRequest := errors.AsType[*url.Error](err); isRequest {
		return request.Err
	}
	return err
}

// shownReader calls show with the number of bytes read so far.
type shownReader struct {
	body io.Reader
	come int64
	show func(come int64)
}

func (r *shownReader) Read(buffer []byte) (int, error) {
	n, err := r.body.Read(buffer)
	if n > 0 {
		r.come += int64(n)
		r.show(r.come)
	}
	return n, err
}
