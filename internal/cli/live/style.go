// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package live draws ScaledJobs as a table on a terminal, with colors. Kubectl scaledjob top shows it, and so does the
// demo.
package live

import "charm.land/lipgloss/v2"

// The styles. Their colors are from the palette of the terminal.
var (
	Plain  = lipgloss.NewStyle()
	Strong = lipgloss.NewStyle().Bold(true)
	Faint  = lipgloss.NewStyle().Foreground(lipgloss.BrightBlack)
	Accent = lipgloss.NewStyle().Foreground(lipgloss.Cyan)
	Good   = lipgloss.NewStyle().Foreground(lipgloss.Green)
	Warn   = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	Bad    = lipgloss.NewStyle().Foreground(lipgloss.Red)
	Title  = lipgloss.NewStyle().Foreground(lipgloss.Cyan).Bold(true)
)
