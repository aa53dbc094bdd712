#Requires -RunAsAdministrator
<#
.SYNOPSIS
    Removes the adapters Root\SoftNdk, then the driver from the driver store, and the scripts' rules of Windows Firewall.
.DESCRIPTION
    Not yet run on Windows. Programs that use the adapter see it go, as they would a network card. What `ndharness provider install`
    entered into the Winsock catalog stays: `ndharness provider remove` takes it out.
.EXAMPLE
    .\remove.ps1
#>
[CmdletBinding()]
param()
Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

# 3010, ERROR_SUCCESS_REBOOT_REQUIRED.
$done = 0, 3010
$restart = $false
# Of any class: a device has none before a driver is installed on it.
$devices = @(Get-PnpDevice | Where-Object { $_.HardwareID -contains 'Root\SoftNdk' })
foreach ($device in $devices) {
    pnputil.exe /remove-device $device.InstanceId
    if ($LASTEXITCODE -notin $done) {
        throw "pnputil cannot remove $($device.InstanceId): it ended with $LASTEXITCODE"
    }
    $restart = $restart -or $LASTEXITCODE -eq 3010
}

$drivers = @(Get-WindowsDriver -Online | Where-Object { (Split-Path $_.OriginalFileName -Leaf) -eq 'softndk.inf' })
foreach ($driver in $drivers) {
    pnputil.exe /delete-driver $driver.Driver
    if ($LASTEXITCODE -notin $done) {
        throw "pnputil cannot delete $($driver.Driver): it ended with $LASTEXITCODE"
    }
    $restart = $restart -or $LASTEXITCODE -eq 3010
}
Remove-NetFirewallRule -Group SoftNDK -ErrorAction SilentlyContinue
Write-Output "Removed: $($devices.Count) adapters, $($drivers.Count) driver packages."
if ($restart) {
    Write-Warning 'Something is still in use: Windows has to be restarted before all is gone.'
}
# Not what pnputil ended with.
exit 0
