// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"miracle.dev/scaledjob-operator/hack/demo/scene"
	"miracle.dev/scaledjob-operator/hack/demo/view"
)

const usage = `usage: go run ./hack/demo [-redis host:port] [-keep] [scene]

Starts a real Kubernetes control plane, an emulated Redis and the operator on
this machine, pushes messages to Redis lists, and shows how soon how many Jobs
appear. Needs Go and git, neither root nor Docker. The first run builds the
control plane, which takes minutes; after that a minute and a half is enough.

`

// listScenes as the name of a scene lists all scenes.
const listScenes = "list"

// options are the command-line options.
type options struct {
	redisAddress string // of the user's Redis; empty for an emulated one
	keep         bool
	list         bool
	scenes       []scene.Scene
}

// parseOptions parses the command line. It prints errors and help to out.
func parseOptions(args []string, out io.Writer) (options, error) {
	var opts options
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.BoolVar(&opts.keep, "keep", false, "leave everything running until Ctrl-C, to look around with kubectl and redis-cli")
	flags.Func("redis", "use the Redis at `host:port`, with keys of the demo's own that are deleted at the end;\n"+
		"its settings are left alone, and no scene is played that stops or configures Redis", opts.setRedis)
	flags.Usage = func() {
		_, _ = fmt.Fprint(out, usage)
		flags.PrintDefaults()
		_, _ = fmt.Fprint(out, "\n"+listing())
	}
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	if err := opts.setScene(flags.Args()); err != nil {
		_, _ = fmt.Fprintf(out, "%v\n\n%s", err, listing())
		return opts, err
	}
	return opts, nil
}

func (o *options) setRedis(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err == nil && (host == "" || port == "") {
		err = errors.New("it is not host:port")
	}
	o.redisAddress = address
	return err
}

func (o *options) setScene(args []string) error {
	o.scenes = scene.All()
	switch {
	case len(args) == 0:
		return nil
	case len(args) > 1:
		return fmt.Errorf("unexpected argument %q: name one scene, or none for all", args[1])
	case args[0] == listScenes:
		o.list = true
		return nil
	}
	i := slices.IndexFunc(o.scenes, func(s scene.Scene) bool { return s.Name == args[0] })
	if i < 0 {
		return fmt.Errorf("there is no scene %q", args[0])
	}
	o.scenes = o.scenes[i : i+1]
	return nil
}

// listing returns the names and the stories of the scenes.
func listing() string {
	const indent = 13
	var text strings.Builder
	text.WriteString("The scenes, of which you can choose one: make demo SCENE=burst\n\n")
	for _, s := range scene.All() {
		story := view.Wrap(s.Story, lineWidth-indent)
		_, _ = fmt.Fprintf(&text, "  %-11s%s\n", s.Name, strings.Join(story, "\n"+strings.Repeat(" ", indent)))
	}
	return text.String()
}
