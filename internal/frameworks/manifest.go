// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package frameworks

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// Choices are what a manifest needs besides the framework.
type Choices struct {
	// Namespace is empty if the manifest names none.
	Namespace, Name, Queue, RedisAddress, Image string
	Threshold                                   int64
	// With are the conditions that are true, so that the keys with one of them are needed.
	With []string
}

// Manifest returns a complete ScaledJob in YAML, with comments of at most width columns.
func (f *Framework) Manifest(choices Choices, width int) string {
	m := &manifest{width: width}
	number := strings.Replace(f.Number, "as Accurate", "that of the strategy Accurate", 1)
	m.comment("", strings.Join(append([]string{f.Name + ": the number of Jobs is " + number + "."}, f.Notes...), " "), choices.Queue)
	m.line("apiVersion: %s", scaledjobv1.GroupVersion)
	m.line("kind: ScaledJob")
	m.line("metadata:")
	if choices.Namespace != "" {
		m.line("  namespace: %s", scalar(choices.Namespace))
	}
	m.line("  name: %s", scalar(choices.Name))
	m.line("spec:")
	m.line("  queues:")
	m.queues(f.Keys, choices)
	m.line("  redisAddress: %s", scalar(choices.RedisAddress))
	m.comment("  ", "The number of messages for one Job.", "")
	m.line("  threshold: %d", choices.Threshold)
	m.comment("  ", "The maximum number of Jobs at a time.", "")
	m.line("  maxReplicas: %d", scaledjobv1.DefaultMaxReplicas)
	if f.Strategy != "" {
		m.line("  scalingStrategy:")
		m.line("    type: %s", f.Strategy)
		m.comment("    ", "Longer than a worker can need from ready until it has taken its message.", "")
		m.line("    claimGraceSeconds: %d", cmp.Or(f.ClaimGrace, scaledjobv1.DefaultClaimGraceSeconds))
	}
	m.template(f, choices.Image)
	return m.text.String()
}

// manifest writes YAML.
type manifest struct {
	width int
	text  strings.Builder
}

func (m *manifest) line(format string, args ...any) { fmt.Fprintf(&m.text, format+"\n", args...) }

// comment writes a text about a queue in lines of the width.
func (m *manifest) comment(indent, text, queue string) {
	before, line := indent+"#", ""
	for word := range strings.FieldsSeq(about(text, queue)) {
		if line != "" && len([]rune(before+line+" "+word)) > m.width {
			m.line("%s%s", before, line)
			line = ""
		}
		line += " " + word
	}
	m.line("%s%s", before, line)
}

// about returns a text of the data file for a queue. Nothing in it may end the line of a comment.
func about(text, queue string) string {
	quoted := strconv.Quote(queue)
	return strings.ReplaceAll(text, placeholder, quoted[1:len(quoted)-1])
}

// queues writes the keys. Those with a condition are comments, unless it is true.
func (m *manifest) queues(keys []Key, choices Choices) {
	condition := ""
	for _, key := range keys {
		before := "  "
		if slices.Contains(choices.With, key.Condition) {
			key.Condition = ""
		}
		if key.Condition != "" {
			before = "  # "
		}
		if key.Condition != "" && key.Condition != condition {
			m.line("  # %s%s:", strings.ToUpper(key.Condition[:1]), key.Condition[1:])
		}
		condition = key.Condition
		m.line("%s- name: %s", before, scalar(strings.ReplaceAll(key.Name, placeholder, choices.Queue)))
		if key.Type != "" {
			m.line("%s  type: %s", before, key.Type)
		}
		if key.Role != "" {
			m.line("%s  role: %s", before, key.Role)
		}
		if key.Window != "" {
			m.line("%s  sortedSet: {window: %s, scoreUnit: %s}", before, key.Window, key.ScoreUnit)
		}
		if key.ConsumerGroup != "" {
			m.line("%s  stream: {consumerGroup: %s}", before, scalar(key.ConsumerGroup))
		}
	}
}

// template writes the template of the Jobs.
func (m *manifest) template(f *Framework, image string) {
	m.line("  jobTemplate:")
	m.line("    spec:")
	if f.Strategy == scaledjobv1.StrategyAccurate {
		m.comment("      ", "A worker that failed has removed its message, so another try of the Job would take another one.", "")
		m.line("      backoffLimit: 0")
	}
	m.line("      template:")
	m.line("        spec:")
	if f.Strategy == scaledjobv1.StrategyAccurate {
		m.line("          restartPolicy: Never")
	}
	if f.Grace > 0 {
		m.comment("          ", "Longer than the longest message takes: after SIGTERM, the worker finishes it.", "")
		m.line("          terminationGracePeriodSeconds: %d", f.Grace)
	}
	m.line("          containers:")
	end := "A Job has to end: let the worker end after its message, or when none comes"
	if f.End != "" {
		end += ", with " + f.End
	}
	m.comment("          ", end+".", "")
	m.line("          - name: worker")
	m.line("            image: %s", scalar(image))
}

// plain are texts that YAML takes as they are, unless they are words of its own.
var plain = regexp.MustCompile(`^[A-Za-z]([\w./:-]*[\w/-])?$`)

// scalar returns a text as YAML.
func scalar(text string) string {
	words := []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
	if plain.MatchString(text) && !slices.Contains(words, strings.ToLower(text)) {
		return text
	}
	return strconv.Quote(text)
}
