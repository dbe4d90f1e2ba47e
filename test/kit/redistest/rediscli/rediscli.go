// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package rediscli plays redis-cli, which not every machine has, for scripts of workers. The program of the tests plays
// it when it is called by that name:
//
//	func TestMain(m *testing.M) {
//		rediscli.Play()
//		…
package rediscli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	goredis "github.com/redis/go-redis/v9"
)

const name = "redis-cli"

// Play sends the command and exits if this program is called redis-cli, and returns otherwise.
func Play() {
	if filepath.Base(os.Args[0]) == name {
		os.Exit(run(context.Background(), os.Args[1:]))
	}
}

// Folder returns a folder for the PATH of a script, in which this program is called redis-cli.
func Folder(tb testing.TB) string {
	tb.Helper()
	self, err := os.Executable()
	folder := tb.TempDir()
	if err := errors.Join(err, os.Symlink(self, filepath.Join(folder, name))); err != nil {
		tb.Fatal(err)
	}
	return folder
}

// run sends one command and prints its answer as redis-cli does where it has no terminal. It returns the exit code.
func run(ctx context.Context, args []string) int {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	host := flags.String("h", "", "host, or unlike redis-cli host:port")
	port := flags.String("p", "", "port")
	_ = flags.Bool("e", true, "fail when the command does")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	address := *host
	if *port != "" {
		address = net.JoinHostPort(*host, *port)
	}
	client := goredis.NewClient(&goredis.Options{
		Addr: address, Protocol: 2, // as redis-cli speaks
		ReadTimeout: -1, // of a command that waits
	})
	defer func() { _ = client.Close() }()
	var command []any
	for _, arg := range flags.Args() {
		command = append(command, arg)
	}
	answer, err := client.Do(ctx, command...).Result()
	if err != nil && !errors.Is(err, goredis.Nil) {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	printAnswer(os.Stdout, answer)
	return 0
}

// printAnswer prints a line for each element, and an empty one for nil.
func printAnswer(w io.Writer, answer any) {
	switch answer := answer.(type) {
	case nil:
		_, _ = fmt.Fprintln(w)
	case []any:
		for _, element := range answer {
			printAnswer(w, element)
		}
	default:
		_, _ = fmt.Fprintln(w, answer)
	}
}
