// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"
)

// statusWrites returns how many writes of statuses of ScaledJobs the API server has carried out. That is its own count.
func statusWrites(ctx context.Context, access *rest.Config) (int, error) {
	web, err := rest.HTTPClientFor(access)
	if err != nil {
		return 0, err
	}
	defer web.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, access.Host+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	answer, err := web.Do(request)
	if err != nil {
		return 0, fmt.Errorf("reading the metrics of the API server: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("reading the metrics of the API server: it answers %s", answer.Status)
	}
	return sumStatusWrites(answer.Body)
}

// sumStatusWrites adds up the requests with success, by whichever verb they wrote.
func sumStatusWrites(metrics io.Reader) (sum int, err error) {
	const name = "apiserver_request_total{"
	known := false
	lines := bufio.NewScanner(metrics)
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, name) {
			continue
		}
		known = true
		if !isStatusWrite(line) {
			continue
		}
		count, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("reading the metrics of the API server: %w", err)
		}
		sum += int(count)
	}
	if !known {
		err = errors.New("the API server does not count requests")
	}
	return sum, errors.Join(err, lines.Err())
}

func isStatusWrite(line string) bool {
	for _, part := range []string{`code="2`, `resource="scaledjobs"`, `subresource="status"`} {
		if !strings.Contains(line, part) {
			return false
		}
	}
	return !strings.Contains(line, `verb="GET"`)
}
