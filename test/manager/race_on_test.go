// SPDX-License-Identifier: Apache-2.0

//go:build race

package manager_test

const raceDetector = true
