// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

const (
	// redacted stands for what was a password.
	redacted = "[redacted]"
	// tellingBytes is how much of the beginning of a password gives it away: servers cut off what
	// they repeat.
	tellingBytes = 6
)

// spellings are how a password may appear in a text: as it is, and quoted once or twice: by the
// server, and by what tells of its words.
func spellings(password string) []string {
	found := []string{password}
	for range 2 {
		for _, text := range slices.Clone(found) {
			for _, quoted := range []string{strconv.Quote(text), strconv.QuoteToASCII(text), asJSON(text, true), asJSON(text, false)} {
				found = append(found, quoted[1:len(quoted)-1])
			}
		}
		slices.Sort(found)
		found = slices.Compact(found)
	}
	return found
}

// asJSON is a text as a string of JSON, as Go writes it for web pages or for others.
func asJSON(text string, forHTML bool) string {
	var written strings.Builder
	encoder := json.NewEncoder(&written)
	encoder.SetEscapeHTML(forHTML)
	if err := encoder.Encode(text); err != nil {
		return strconv.Quote(text)
	}
	return strings.TrimSuffix(written.String(), "\n")
}

// cutOut replaces each password, and what is left of one that was cut off at its end.
func cutOut(text string, spelled []string) string {
	if len(spelled) == 0 {
		return text
	}
	var clean strings.Builder
	for text != "" {
		if found := beginning(text, spelled); found > 0 {
			clean.WriteString(redacted)
			text = text[found:]
			continue
		}
		clean.WriteByte(text[0])
		text = text[1:]
	}
	return clean.String()
}

// beginning is how many bytes of a password the text begins with, if they give it away.
func beginning(text string, spelled []string) int {
	longest := 0
	for _, secret := range spelled {
		if n := commonPrefix(text, secret); n >= min(len(secret), tellingBytes) {
			longest = max(longest, n)
		}
	}
	return longest
}

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
