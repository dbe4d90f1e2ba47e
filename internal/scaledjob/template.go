// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaledjob

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"runtime"
	"strconv"
	"sync"
	"weak"

	batchv1 "k8s.io/api/batch/v1"
	kjson "sigs.k8s.io/json"
)

const (
	// maxTemplate is the size of a template as JSON up to which it is used. The cache keeps it in this form.
	maxTemplate = 64 << 10
	// maxObjects is the number of JSON objects in a template, or of opening braces in its texts, up to which it is used.
	// Each object may be two bytes of JSON, and hundreds when it is decoded, at the same time on each worker.
	maxObjects = 5_000
)

// TooLargeError is the error of a spec whose template is larger than the operator takes.
type TooLargeError string

func (e TooLargeError) Error() string { return string(e) }

// TooLarge distinguishes this error from others without its type.
func (TooLargeError) TooLarge() bool { return true }

// checkSize returns an error if a template is larger than the operator takes.
func checkSize(text []byte) error {
	if len(text) > maxTemplate {
		return TooLargeError(fmt.Sprintf("jobTemplate is larger than %d KiB as JSON", maxTemplate>>10))
	}
	if bytes.Count(text, []byte("{")) > maxObjects {
		return TooLargeError(fmt.Sprintf("jobTemplate has more than %d JSON objects", maxObjects))
	}
	return nil
}

// Template is the template of the Jobs as JSON, which takes a fraction of the memory of the decoded one. It can't be
// changed.
type Template struct {
	// Hash is the hash of its JSON, see hashOf.
	Hash string

	// kept is the template itself; nil if there is none.
	kept *kept
}

// kept is a template that was found to be valid.
type kept struct{ text, hash string }

// known are the kept templates by their texts. Most events of a ScaledJob do not change its template, and many
// ScaledJobs may have the same one: then it needs neither be decoded nor hashed again, and is in the memory once. The
// pointers are weak, so that only templates that somebody holds are known.
var known = struct {
	sync.Mutex
	templates map[string]weak.Pointer[kept]
}{templates: map[string]weak.Pointer[kept]{}}

// pack returns the template with this JSON, or an error if it is too large or can't be decoded.
func pack(text []byte) (Template, error) {
	if err := checkSize(text); err != nil {
		return Template{}, err
	}
	if same := recall(text); same != nil {
		return Template{Hash: same.hash, kept: same}, nil
	}
	if _, err := decodeTemplate(text); err != nil {
		return Template{}, err
	}
	hash, err := hashOf(text)
	if err != nil {
		return Template{}, err
	}
	packed := &kept{text: string(text), hash: hash}
	remember(packed)
	return Template{Hash: packed.hash, kept: packed}, nil
}

// hashOf returns a hash of the template with this JSON, in base 36. It does not depend on the Go types of Jobs, which
// change with the version of Kubernetes that the operator is built with, and so do the fields that they encode. The API
// server serves the same bytes to each client, with sorted keys, but does not promise that for its next version: the
// order of keys, spaces and escapes. So hashOf decodes the values and encodes them again.
func hashOf(text []byte) (string, error) {
	var values any
	if len(text) > 0 { // A spec may have no template.
		if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &values); err != nil {
			return "", fmt.Errorf("jobTemplate: %w", err)
		}
	}
	hash := fnv.New64a()
	if err := json.NewEncoder(hash).Encode(values); err != nil { // Sorts the keys of objects.
		return "", fmt.Errorf("jobTemplate: %w", err)
	}
	return strconv.FormatUint(hash.Sum64(), 36), nil
}

// recall returns the known template with this text; nil if it is not known.
func recall(text []byte) *kept {
	known.Lock()
	defer known.Unlock()
	return known.templates[string(text)].Value()
}

// remember makes a template known until nobody holds it.
func remember(template *kept) {
	known.Lock()
	defer known.Unlock()
	known.templates[template.text] = weak.Make(template)
	runtime.AddCleanup(template, forget, template.text)
}

// forget removes a template that nobody holds any more. Another one with the same text may have become known since.
func forget(text string) {
	known.Lock()
	defer known.Unlock()
	if known.templates[text].Value() == nil {
		delete(known.templates, text)
	}
}

func decodeTemplate(text []byte) (*batchv1.JobTemplateSpec, error) {
	decoded := &batchv1.JobTemplateSpec{}
	if _, err := unmarshal(text, decoded); err != nil {
		return nil, fmt.Errorf("jobTemplate: %w", err)
	}
	return decoded, nil
}

// Decode returns the template, of which the caller may change anything.
func (t Template) Decode() (*batchv1.JobTemplateSpec, error) {
	if t.kept == nil {
		return decodeTemplate(nil)
	}
	return decodeTemplate([]byte(t.kept.text))
}
