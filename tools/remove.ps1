#Requires -RunAsAdministrator
<#
.SYNOPSIS
    Removes the adapters Root\SoftNdk, then the driver from the driver store.
.DESCRIPTION
    Not yet run on Windows. Programs that use the adapter see it go, as they would a network card.
.EXAMPLE
    .\remove.ps1
#>
[CmdletBinding()]
param()
Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

$devices = @(Get-PnpDevice -Class Net | Where-Object { $_.HardwareID -contains 'Root\SoftNdk' })
foreach ($device in $devices) {
    pnputil.exe /remove-device $device.InstanceId
    if ($LASTEXITCODE -ne 0) {
        throw "pnputil cannot remove $($device.InstanceId): it ended with $LASTEXITCODE"
    }
}

$drivers = @(Get-WindowsDriver -Online | Where-Object { (Split-Path $_.OriginalFileName -Leaf) -eq 'softndk.inf' })
foreach ($driver in $drivers) {
    pnputil.exe /delete-driver $driver.Driver
    if ($LASTEXITCODE -ne 0) {
        throw "pnputil cannot delete $($driver.Driver): it ended with $LASTEXITCODE"
    }
}
Write-Output "Removed: $($devices.Count) adapters, $($drivers.Count) driver packages."
