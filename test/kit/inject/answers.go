// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"path"
	"strings"
	"time"
)

// Answer answers a request. Before it is carried out, no answer and no error mean that it is.
type Answer func(*http.Request) (*http.Response, error)

var errReset = errors.New("connection reset")

// Reset breaks the connection.
func Reset(*http.Request) (*http.Response, error) { return nil, errReset }

// Status answers with a code, as a gateway does, and with these headers: names and values in turn.
func Status(code int, headers ...string) Answer {
	return func(request *http.Request) (*http.Response, error) {
		header := http.Header{}
		for i := 0; i+1 < len(headers); i += 2 {
			header.Set(headers[i], headers[i+1])
		}
		return &http.Response{
			StatusCode: code, Header: header, Body: http.NoBody, Request: request,
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		}, nil
	}
}

// OneOf answers in one way or another, by chance.
func OneOf(answers ...Answer) Answer {
	return func(request *http.Request) (*http.Response, error) { return answers[rand.IntN(len(answers))](request) }
}

// Delay has a request carried out only after this time, as an admission webhook does.
func Delay(delay time.Duration) Answer {
	return func(request *http.Request) (*http.Response, error) {
		select {
		case <-time.After(delay):
			return nil, nil
		case <-request.Context().Done():
			return nil, request.Context().Err()
		}
	}
}

// expired is what an API server answers to a watch that is too old.
const expired = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
	`"message":"too old resource version: 1 (2)","reason":"Expired","code":410}}`

// Expired says that a watch is too old to go on, so that its client lists all objects again. A watch that begins with all
// objects is carried out: client-go begins so after a watch of less than a second without an event.
func Expired(request *http.Request) (*http.Response, error) {
	if request.URL.Query().Has("sendInitialEvents") {
		return nil, nil
	}
	response, err := Status(http.StatusOK, "Content-Type", "application/json")(request)
	if err == nil {
		response.Body = io.NopCloser(strings.NewReader(expired))
	}
	return response, err
}

// CreatesJob reports whether the request is to create a Job, and not only to try it.
func CreatesJob(request *http.Request) bool {
	return request.Method == http.MethodPost && path.Base(request.URL.Path) == "jobs" && !request.URL.Query().Has("dryRun")
}

// Watches reports whether the request is a watch.
func Watches(request *http.Request) bool { return request.URL.Query().Get("watch") != "" }

// WatchOf matches the watches of a resource.
func WatchOf(resource string) func(*http.Request) bool {
	return func(request *http.Request) bool { return Watches(request) && path.Base(request.URL.Path) == resource }
}
