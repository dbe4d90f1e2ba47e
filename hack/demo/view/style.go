// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package view draws the board: as a screen that is updated in place, or as plain lines. Each view depends only on a
// Snapshot.
package view

import "charm.land/lipgloss/v2"

// The colors are from the palette of the terminal.
var (
	plainStyle  = lipgloss.NewStyle()
	strongStyle = lipgloss.NewStyle().Bold(true)
	faintStyle  = lipgloss.NewStyle().Foreground(lipgloss.BrightBlack)
	accentStyle = lipgloss.NewStyle().Foreground(lipgloss.Cyan)
	goodStyle   = lipgloss.NewStyle().Foreground(lipgloss.Green)
	warnStyle   = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	badStyle    = lipgloss.NewStyle().Foreground(lipgloss.Red)
	titleStyle  = lipgloss.NewStyle().Foreground(lipgloss.Cyan).Bold(true)
)
