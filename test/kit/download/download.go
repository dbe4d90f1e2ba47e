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
	"net/http/httptrace"
	"net/url"
	"os"
	"strings"
	"time"
)

const (
	reachTimeout  = 3 * time.Second
	answerTimeout = 30 * time.Second
	stallTimeout  = 10 * time.Second
	// retryPause is how long a server is left alone after a fault that may pass.
	retryPause = time.Second
	// textLimit bounds a list of checksums.
	textLimit = 1 << 20
	// fileLimit bounds a file, which is several times as large as any program.
	fileLimit    = 1 << 30
	maxRedirects = 10
)

// ErrUnreachable means that the server has not answered, or not over HTTPS.
var ErrUnreachable = errors.New("not reachable")

var errWebPage = errors.New("a web page came instead, perhaps a login of the network")

// passing is a fault that may be gone when the same is asked again.
type passing struct{ error }

func (p passing) Unwrap() error { return p.error }

// Client downloads. The zero value is one for the internet.
type Client struct {
	HTTP *http.Client
	// Reach is how long connecting to a server may take, Answer how long the server may take until it answers, and Stall
	// how long no byte may come then.
	Reach, Answer, Stall time.Duration
	// Limit is how many bytes of a file are read. What is longer has the wrong digest.
	Limit int64
}

// Text returns what is at the address, if it is short.
func (c Client) Text(ctx context.Context, address string) (text string, err error) {
	err = c.getTwice(ctx, address, func(body io.Reader, _ int64) error {
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
	err := c.getTwice(ctx, address, func(body io.Reader, size int64) error {
		sum.Reset()
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

// getTwice is get, and asks once more after a fault that may pass.
func (c Client) getTwice(ctx context.Context, address string, read func(body io.Reader, size int64) error) error {
	err := c.get(ctx, address, read)
	if _, mayPass := errors.AsType[passing](err); !mayPass {
		return err
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(retryPause):
		return c.get(ctx, address, read)
	}
}

// get calls read with the answer. It ends the request when nothing comes.
func (c Client) get(ctx context.Context, address string, read func(body io.Reader, size int64) error) error {
	c = c.complete()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	connecting := time.AfterFunc(c.Reach, func() { cancel(fmt.Errorf("no connection within %s", c.Reach)) })
	defer connecting.Stop()
	answering := time.AfterFunc(c.Reach+c.Answer, func() { cancel(fmt.Errorf("no answer within %s", c.Answer)) })
	defer answering.Stop()
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connecting.Stop(); answering.Reset(c.Answer) }}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept-Encoding", "identity") // a compressed answer does not tell the size
	redirected := ""
	response, err := c.follower(connecting, &redirected).Do(request)
	switch {
	case err != nil && redirected == "":
		return fmt.Errorf("%w (%w)", ErrUnreachable, cause(ctx, err))
	case err != nil:
		return fmt.Errorf("%w (redirected to %s)", cause(ctx, err), redirected)
	}
	defer func() { _ = response.Body.Close() }()
	if err := judge(response); err != nil {
		return err
	}
	connecting.Stop()
	answering.Stop()
	stalled := time.AfterFunc(c.Stall, func() { cancel(passing{fmt.Errorf("nothing came for %s", c.Stall)}) })
	defer stalled.Stop()
	body := &shownReader{body: response.Body, show: func(int64) { stalled.Reset(c.Stall) }}
	err = read(body, response.ContentLength)
	if ended := context.Cause(ctx); ended != nil {
		return ended // even without an error: a server may end its answer when it hears that nobody waits for more
	}
	if body.err != nil {
		return passing{body.err}
	}
	return err
}

// judge returns why an answer is none.
func judge(response *http.Response) error {
	err := fmt.Errorf("%s answers %s", response.Request.URL.Redacted(), response.Status)
	switch code := response.StatusCode; {
	case code == http.StatusTooManyRequests || code >= http.StatusInternalServerError:
		return passing{err}
	case code != http.StatusOK:
		return err
	case strings.HasPrefix(response.Header.Get("Content-Type"), "text/html"):
		return errWebPage
	default:
		return nil
	}
}

func (c Client) complete() Client {
	if c.HTTP == nil {
		c.HTTP = http.DefaultClient
	}
	if c.Reach == 0 {
		c.Reach = reachTimeout
	}
	if c.Answer == 0 {
		c.Answer = answerTimeout
	}
	if c.Stall == 0 {
		c.Stall = stallTimeout
	}
	return c
}

// follower returns a client that follows a redirect only over HTTPS, gives each server the time to connect, and sets
// redirected to where the last one leads.
func (c Client) follower(connecting *time.Timer, redirected *string) *http.Client {
	web := *c.HTTP
	web.CheckRedirect = func(next *http.Request, via []*http.Request) error {
		*redirected = next.URL.Scheme + "://" + next.URL.Host
		if next.URL.Scheme != "https" {
			return errors.New("it is not HTTPS")
		}
		if len(via) >= maxRedirects {
			return fmt.Errorf("%d redirects", len(via))
		}
		connecting.Reset(c.Reach)
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
	err  error // other than the end
}

func (r *shownReader) Read(buffer []byte) (int, error) {
	n, err := r.body.Read(buffer)
	if n > 0 {
		r.come += int64(n)
		r.show(r.come)
	}
	if !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}
