// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
)

// Usage explains the command line.
const Usage = `usage: go run ./hack/demo [-redis host:port] [-keep] [scene]

Starts a real Kubernetes control plane, an emulated Redis and the operator on
this machine, pushes messages to Redis lists, and shows how soon how many Jobs
appear. Needs Go and git, neither root nor Docker. The first run builds the
control plane, which takes minutes; after that a minute and a half is enough.

  -redis host:port  uses your Redis, with keys of the demo's own that are deleted
                    at the end. Its settings are left alone, and no scene is
                    played that kills or configures Redis.
  -keep             leaves everything running until Ctrl-C, to look around with
                    kubectl and redis-cli.

`

// listScenes as the name of a scene lists all scenes.
const listScenes = "list"

// Options are the command-line options.
type Options struct {
	RedisAddress string // of the user's Redis; empty for an emulated one
	Keep         bool
	List         bool    // only list the scenes
	Scenes       []Scene // to play
	LeftOut      []Scene // because they would harm the user's Redis
}

// Parse parses the command line. It returns [flag.ErrHelp] if that asks for help.
func Parse(args []string) (Options, error) {
	var opts Options
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.BoolVar(&opts.Keep, "keep", false, "")
	flags.StringVar(&opts.RedisAddress, "redis", "", "")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	return opts, cmp.Or(checkAddress(opts.RedisAddress), opts.choose(flags.Args()))
}

// checkAddress returns an error if the address is neither empty nor host:port.
func checkAddress(address string) error {
	if address == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	var wrong string
	switch {
	case !strings.Contains(address, ":"), err == nil && port == "":
		wrong = "the port is missing"
	case err != nil:
		wrong = "it is not host:port"
	case host == "":
		wrong = "the host is missing"
	default:
		return nil
	}
	return fmt.Errorf("REDIS=%s: %s, for example REDIS=localhost:6379", strings.TrimSuffix(address, ":"), wrong)
}

// choose sets the scenes. Without a name, these are all, except for those that would harm the user's Redis.
func (o *Options) choose(args []string) error {
	for _, scene := range All() {
		if o.RedisAddress != "" && scene.Harm != "" {
			o.LeftOut = append(o.LeftOut, scene)
		} else {
			o.Scenes = append(o.Scenes, scene)
		}
	}
	switch {
	case len(args) == 0:
		return nil
	case len(args) > 1:
		return fmt.Errorf("unexpected argument %q: name one scene, or none for all", args[1])
	case args[0] == listScenes:
		o.List = true
		return nil
	}
	named := func(s Scene) bool { return s.Name == args[0] }
	if i := slices.IndexFunc(o.LeftOut, named); i >= 0 {
		return fmt.Errorf("SCENE=%s %s, so it is not played on yours. With REDIS, choose one of these scenes: %s",
			args[0], o.LeftOut[i].Harm, names(o.Scenes))
	}
	i := slices.IndexFunc(o.Scenes, named)
	if i < 0 {
		return fmt.Errorf("there is no scene %q; scenes: %s", args[0], names(o.Scenes))
	}
	o.Scenes, o.LeftOut = o.Scenes[i:i+1], nil
	return nil
}

func names(scenes []Scene) string {
	var all []string
	for _, scene := range scenes {
		all = append(all, scene.Name)
	}
	return strings.Join(all, ", ")
}

// Listing returns the names and the stories of the scenes.
func Listing() string {
	const indent = 13
	var text strings.Builder
	text.WriteString("The scenes, of which you can choose one: make demo SCENE=burst\n\n")
	for _, s := range All() {
		story := Wrap(s.Story, LineWidth-indent)
		_, _ = fmt.Fprintf(&text, "  %-11s%s\n", s.Name, strings.Join(story, "\n"+strings.Repeat(" ", indent)))
	}
	return text.String()
}
