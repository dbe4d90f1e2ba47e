// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	goredis "github.com/redis/go-redis/v9"
)

// redisCLI is the name under which this program plays that of Redis, which not
// every machine has.
const redisCLI = "redis-cli"

// simulateRedisCLI sends one command and prints its answer as redis-cli does where
// it has no terminal. It returns the exit code.
func simulateRedisCLI(ctx context.Context, args []string) int {
	flags := flag.NewFlagSet(redisCLI, flag.ContinueOnError)
	address := flags.String("h", "", "host and, unlike redis-cli, port")
	_ = flags.Bool("e", true, "fail when the command does")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	client := goredis.NewClient(&goredis.Options{Addr: *address, Protocol: 2}) // as redis-cli speaks
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
